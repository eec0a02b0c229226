#!/usr/bin/env python3
"""Writes tests/golden/<detector>.json: losses and gradients of torchvision's detectors in double precision.

usage: python3 tests/golden/make_two_stage.py [DETECTOR...]        (needs torch and torchvision)

Weights and images come from the formula of make_golden.py; the objects are listed below. The images need no resizing and
no normalization, so what is compared is the network, its anchors, their matching, and the losses. IMAGE_SALT was chosen
so that no activation of the float run crosses a kink of ReLU (make_golden.py tells more): float_deviation is small.
"""

import pathlib
import sys

import numpy as np
import torch
import torchvision
from torchvision.models.detection import roi_heads
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FasterRCNN, FastRCNNPredictor, TwoMLPHead

from make_golden import HERE, deviation, initial, samples, value, write

CLASSES, BATCH, SIZE, BIAS_SHIFT, SAMPLES = 4, 2, 128, 0, 16
# Of Faster R-CNN. BEFORE_NMS: anchors of a level that may become proposals; REGIONS: of an image that train.
NECK_CHANNELS, HEAD_CHANNELS, ANCHOR_SIZES, BEFORE_NMS, REGIONS = 64, 128, [16, 32, 64, 96, 128], 100, 128
# Where the norms of a ResNet's stage see the regions: FEW_PROPOSALS and two objects of each image, so no row is empty.
FEW_PROPOSALS = 8
OBJECTS = [  # of each image: x1, y1, x2, y2, label
    [(10.0, 12.0, 52.0, 47.5, 1), (60.0, 30.0, 123.0, 110.0, 0), (3.0, 90.0, 31.0, 120.0, 3)],
    [(20.0, 8.0, 110.0, 100.0, 2), (70.0, 70.0, 103.0, 106.0, 1)],
]


def image_by_image(loss, labels_at):
    """The mean over images of a loss of torchvision whose argument labels_at, and the next one, list the images."""

    def mean(*arguments):
        labels, boxes = arguments[labels_at:]
        tensors = [argument.split([len(of_image) for of_image in labels]) for argument in arguments[:labels_at]]
        if labels[0].is_floating_point():  # float32, else the loss would be too
            labels = [of_image.to(boxes[0].dtype) for of_image in labels]
        of_images = [
            loss(*(tensor[i] for tensor in tensors), [labels[i]], [boxes[i]]) for i in range(len(labels))
        ]
        return tuple(sum(parts) / len(labels) for parts in zip(*of_images))

    return mean


FASTRCNN_LOSS = roi_heads.fastrcnn_loss


def two_stages(backbone, anchor_sizes, pool=None, regions=REGIONS, proposals=REGIONS - 8, **parts):
    """torchvision's FasterRCNN where every anchor and every proposal trains. pool: in place of its pool of regions."""
    model = FasterRCNN(
        backbone,
        rpn_anchor_generator=AnchorGenerator(anchor_sizes, ((0.5, 1.0, 2.0),) * len(anchor_sizes)),
        **parts,
        rpn_pre_nms_top_n_train=BEFORE_NMS,
        rpn_post_nms_top_n_train=proposals,
        rpn_batch_size_per_image=100000,
        rpn_positive_fraction=1.0,
        box_batch_size_per_image=regions,
        box_positive_fraction=1.0,
    )
    model.rpn.compute_loss = image_by_image(model.rpn.compute_loss, 2)
    roi_heads.fastrcnn_loss = image_by_image(FASTRCNN_LOSS, 2)
    if pool:
        model.roi_heads.box_roi_pool = Function(pool)
    return model


def faster_rcnn():
    stages = {f"layer{i + 1}": str(i) for i in range(4)}
    return two_stages(
        BackboneWithFPN(torchvision.models.resnet18(weights=None), stages, [64, 128, 256, 512], NECK_CHANNELS),
        [(size,) for size in ANCHOR_SIZES],
        box_head=TwoMLPHead(NECK_CHANNELS * 7 * 7, HEAD_CHANNELS),
        box_predictor=FastRCNNPredictor(HEAD_CHANNELS, CLASSES + 1),
    )


class OneMap(torch.nn.Module):
    """The first three stages of a ResNet; layer4 is there for others, unless it is taken."""

    def __init__(self, resnet):
        super().__init__()
        del resnet.fc, resnet.avgpool
        self.body, self.out_channels = resnet, 256

    def forward(self, x):
        body = self.body
        x = body.maxpool(body.relu(body.bn1(body.conv1(x))))
        return {"0": body.layer3(body.layer2(body.layer1(x)))}


class WideRpn(torch.nn.Module):
    """The head of an RPN whose convolution has 512 channels; the nesting gives torchvision's names."""

    def __init__(self, anchors):
        super().__init__()
        nn = torch.nn
        self.conv = nn.Sequential(nn.Sequential(nn.Conv2d(256, 512, 3, padding=1)))
        self.cls_logits, self.bbox_pred = nn.Conv2d(512, anchors, 1), nn.Conv2d(512, anchors * 4, 1)

    def forward(self, maps):
        hidden = [torch.relu(self.conv(x)) for x in maps]
        return [self.cls_logits(x) for x in hidden], [self.bbox_pred(x) for x in hidden]


class Function(torch.nn.Module):
    """A part without parameters of its own."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class LastStage(torch.nn.Module):
    def __init__(self, layer4):
        super().__init__()
        self.layer4 = layer4

    def forward(self, x):
        return self.layer4(x).mean((2, 3))


def faster_rcnn_c4():
    resnet = torchvision.models.resnet18(weights=None)
    layer4 = resnet.layer4
    del resnet.layer4

    def pool(features, proposals, _):
        return torchvision.ops.roi_align(features["0"], proposals, 14, 1 / 16, sampling_ratio=-1, aligned=True)

    return two_stages(
        OneMap(resnet),
        [tuple(ANCHOR_SIZES)],
        pool,
        FEW_PROPOSALS + 2,
        FEW_PROPOSALS,
        rpn_head=WideRpn(3 * len(ANCHOR_SIZES)),
        box_head=LastStage(layer4),
        box_predictor=FastRCNNPredictor(512, CLASSES + 1),
    )


def position_sensitive_pool(maps, boxes, bins=7):
    """R-FCN's pool, from its definition: bin (i, j) is the mean of its own maps, which come first in the channels."""
    maps = maps.unflatten(0, (bins, bins, -1))  # (row, column, out, height, width)
    height, width = maps.shape[-2:]
    regions = []
    for x1, y1, x2, y2 in torch.floor(boxes / 16 + 0.5).tolist():
        size_x, size_y = (np.float32(max(size, 1)) / np.float32(bins) for size in (x2 - x1, y2 - y1))
        total = 0
        for i in range(bins):
            for j in range(bins):
                top, bottom = (min(max(v, 0), height) for v in bin_edges(y1, size_y, i))
                left, right = (min(max(v, 0), width) for v in bin_edges(x1, size_x, j))
                if bottom > top and right > left:
                    total = total + maps[i, j, :, top:bottom, left:right].mean((1, 2)) / bins**2
        regions.append(total if torch.is_tensor(total) else maps.new_zeros(maps.shape[2]))
    return torch.stack(regions)


def bin_edges(start, size, number):
    return int(start + np.floor(np.float32(number) * size)), int(start + np.ceil(np.float32(number + 1) * size))


def rfcn():
    nn = torch.nn
    resnet = torchvision.models.resnet18(weights=None)
    for convolution in (m for m in resnet.layer4.modules() if isinstance(m, nn.Conv2d)):
        convolution.stride = (1, 1)
        if convolution.kernel_size == (3, 3):
            convolution.padding = convolution.dilation = (2, 2)

    def pool(features, proposals, _):
        x = torch.relu(model.conv_new_1(model.backbone.body.layer4(features["0"])))
        votes = [
            torch.cat([position_sensitive_pool(of_image, boxes) for of_image, boxes in zip(maps, proposals)])
            for maps in (model.rfcn_cls(x), model.rfcn_bbox(x))
        ]
        return torch.cat(votes, 1)

    model = two_stages(
        OneMap(resnet),
        [tuple(ANCHOR_SIZES)],
        pool,
        rpn_head=WideRpn(3 * len(ANCHOR_SIZES)),
        box_head=Function(lambda x: x),
        box_predictor=Function(lambda x: (x[:, : CLASSES + 1], x[:, CLASSES + 1 :].repeat(1, CLASSES + 1))),
    )
    model.conv_new_1 = nn.Conv2d(512, HEAD_CHANNELS, 1)
    model.rfcn_cls, model.rfcn_bbox = nn.Conv2d(HEAD_CHANNELS, 49 * (CLASSES + 1), 1), nn.Conv2d(HEAD_CHANNELS, 49 * 4, 1)
    return model


FASTER_RCNN_LOSSES = {
    "loss_objectness": "loss_objectness",
    "loss_rpn_box_reg": "loss_rpn_box",
    "loss_classifier": "loss_class",
    "loss_box_reg": "loss_box",
}
SETTINGS = [
    f"model.head_channels={HEAD_CHANNELS}",
    f"model.anchor_sizes={ANCHOR_SIZES}",
    f"rpn.before_nms={BEFORE_NMS}",
    f"rpn.after_nms={REGIONS - 8}",
    "rpn.samples=100000",
    "rpn.fraction=1",
    f"roi.samples={REGIONS}",
    "roi.fraction=1",
]
PYRAMID_SETTINGS = [f"model.neck_channels={NECK_CHANNELS}"] + SETTINGS
C4_SETTINGS = SETTINGS + [f"rpn.after_nms={FEW_PROPOSALS}", f"roi.samples={FEW_PROPOSALS + 2}"]
# Each with its losses by their names, the salt of its images, the label of its first class, and octet's settings.
DETECTORS = {
    "faster_rcnn": (faster_rcnn, FASTER_RCNN_LOSSES, 1004, 1, PYRAMID_SETTINGS),
    "faster_rcnn_c4": (faster_rcnn_c4, FASTER_RCNN_LOSSES, 1017, 1, C4_SETTINGS),
    "rfcn": (rfcn, FASTER_RCNN_LOSSES, 1002, 1, SETTINGS),
}


def factor(parameter_name):
    """Of initial values. The RPN moves its anchors little: of slivers of regions the coordinates in float are too coarse."""
    return 1 / 32 if parameter_name.startswith("rpn.head.bbox_pred") else 1.0


def objects_of(name):
    return [objects[:2] for objects in OBJECTS] if name == "faster_rcnn_c4" else OBJECTS


def run(name, dtype):
    build, names, image_salt, first_label, _ = DETECTORS[name]
    model = build().train()
    model.transform.min_size, model.transform.max_size = (SIZE,), SIZE
    model.transform.image_mean, model.transform.image_std = [0.0] * 3, [1.0] * 3
    with torch.no_grad():
        for salt, (parameter_name, parameter) in enumerate(model.named_parameters()):
            owner, _, leaf = parameter_name.rpartition(".")
            parameter.copy_(initial(model.get_submodule(owner), leaf, parameter, salt, BIAS_SHIFT))
            parameter.mul_(factor(parameter_name))
    model = model.to(dtype)
    pixels = np.float32(4) * value(BATCH * 3 * SIZE * SIZE, image_salt)
    images = torch.from_numpy(pixels).reshape(BATCH, 3, SIZE, SIZE).to(dtype)
    targets = [
        {
            "boxes": torch.tensor([o[:4] for o in objects], dtype=dtype),
            "labels": torch.tensor([o[4] + first_label for o in objects]),
        }
        for objects in objects_of(name)
    ]
    losses = model(list(images), targets)
    total = sum(losses.values())
    total.backward()
    return model, {ours: losses[theirs].item() for theirs, ours in names.items()}, total.item()


def golden(name):
    model, parts, total = run(name, torch.float64)
    model32, _, total32 = run(name, torch.float32)
    floor = 1e-3 * max(p.grad.norm().item() for p in model.parameters())
    gradients32 = {n: p.grad for n, p in model32.named_parameters()}
    return {
        "detector": name,
        "source": f"tests/golden/make_two_stage.py, torchvision {torchvision.__version__.split('+')[0]}, float64",
        "batch": BATCH,
        "image_size": SIZE,
        "image_salt": DETECTORS[name][2],
        "settings": DETECTORS[name][4],
        "norm_bias_shift": BIAS_SHIFT,
        "classes": CLASSES,
        "formula_check": [float(v) for v in value(4, 7)],
        "objects": [[list(o) for o in objects] for objects in objects_of(name)],
        "float_deviation": {
            "loss": float(f"{abs(total32 - total) / total:.3g}"),
            "gradient_worst": max(deviation(gradients32[n], p.grad, floor) for n, p in model.named_parameters()),
        },
        "loss": total,
        "losses": parts,
        "parameters": [
            {
                "name": parameter_name,
                "shape": list(p.shape),
                "factor": factor(parameter_name),
                "gradient_norm": float(f"{p.grad.norm().item():.9g}"),
                "gradient": samples(p.grad, SAMPLES),
            }
            for parameter_name, p in model.named_parameters()
        ],
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    for wanted in sys.argv[1:] or DETECTORS:
        result = golden(wanted)
        path = pathlib.Path(HERE) / f"{wanted}.json"
        write(result, path)
        print(f"{path.name}: {path.stat().st_size} bytes, loss {result['loss']:.6f} {result['losses']}, "
              f"float deviation {result['float_deviation']}")
