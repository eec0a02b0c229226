"""Detectors of two stages for make_detectors.py: torchvision's Faster R-CNN, the same on one map, and R-FCN from its
definition. Every anchor and every proposal trains, so that nothing is drawn at random."""

import numpy as np
import torch
import torchvision
from torchvision.models.detection import roi_heads
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FasterRCNN, FastRCNNPredictor, TwoMLPHead

CLASSES = 4
# BEFORE_NMS: anchors of a level that may become proposals; REGIONS: of an image that train.
NECK_CHANNELS, HEAD_CHANNELS, ANCHOR_SIZES, BEFORE_NMS, REGIONS = 64, 128, [16, 32, 64, 96, 128], 100, 128
# Where the norms of a ResNet's stage see the regions: FEW_PROPOSALS and two objects of each image, so no row is empty.
FEW_PROPOSALS = 8


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


LOSSES = {
    "loss_objectness": "loss_objectness",
    "loss_rpn_box_reg": "loss_rpn_box",
    "loss_classifier": "loss_class",
    "loss_box_reg": "loss_box",
}
# Of octet.
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
