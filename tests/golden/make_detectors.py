#!/usr/bin/env python3
"""Writes tests/golden/<detector>.json: losses and gradients of torchvision's detectors in double precision.

usage: python3 tests/golden/make_detectors.py [DETECTOR...]        (needs torch and torchvision)

Weights and images come from the formula of make_golden.py; the objects are listed below. The images need no resizing and
no normalization, so what is compared is the network, its anchors, their matching, and the losses. IMAGE_SALT was chosen
so that no activation of the float run crosses a kink of ReLU (make_golden.py tells more): float_deviation is small.

`parameters` lists what has a gradient. Of a detector whose norms are frozen, `frozen` lists all other tensors. They are
numbered (the salt of their values) behind the parameters; a running mean has the values of a norm's bias, a running
variance those of a norm's weight.
"""

import pathlib
import sys

import numpy as np
import torch
import torchvision
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.models.detection.retinanet import RetinaNet, _default_anchorgen
from torchvision.ops import FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

import two_stage
from make_golden import HERE, deviation, initial, samples, value, write
from two_stage import CLASSES

BATCH, SIZE, BIAS_SHIFT, SAMPLES = 2, 128, 0, 16
OBJECTS = [  # of each image: x1, y1, x2, y2, label
    [(10.0, 12.0, 52.0, 47.5, 1), (60.0, 30.0, 123.0, 110.0, 0), (3.0, 90.0, 31.0, 120.0, 3)],
    [(20.0, 8.0, 110.0, 100.0, 2), (70.0, 70.0, 103.0, 106.0, 1)],
]


def retinanet(norm=torch.nn.BatchNorm2d, trained_stages=5):
    backbone = torchvision.models.resnet18(weights=None, norm_layer=norm)
    levels = LastLevelP6P7(256, 256)
    pyramid = _resnet_fpn_extractor(backbone, trained_stages, returned_layers=[2, 3, 4], extra_blocks=levels)
    return RetinaNet(pyramid, CLASSES, anchor_generator=_default_anchorgen())


class Case:
    """losses: torchvision's names and ours. image_salt: see make_golden.py. first_label: of torchvision's classes. settings: of
    octet. objects: of each image, at most."""

    def __init__(self, build, image_salt, losses, first_label=0, settings=None, objects=3):
        self.build, self.image_salt, self.losses = build, image_salt, losses
        self.first_label, self.settings = first_label, settings
        self.objects = [of_image[:objects] for of_image in OBJECTS]


RETINANET_LOSSES = {"classification": "loss_class", "bbox_regression": "loss_box"}
DETECTORS = {
    "retinanet": Case(retinanet, 1010, RETINANET_LOSSES),
    "retinanet_frozen": Case(lambda: retinanet(FrozenBatchNorm2d, 3), 1011, RETINANET_LOSSES),
    "faster_rcnn": Case(two_stage.faster_rcnn, 1004, two_stage.LOSSES, 1, two_stage.PYRAMID_SETTINGS),
    "faster_rcnn_c4": Case(two_stage.faster_rcnn_c4, 1017, two_stage.LOSSES, 1, two_stage.C4_SETTINGS, objects=2),
    "rfcn": Case(two_stage.rfcn, 1002, two_stage.LOSSES, 1, two_stage.SETTINGS),
}


def trained(model):
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def frozen(model):
    """Parameters and buffers without a gradient."""
    if not any(isinstance(module, FrozenBatchNorm2d) for module in model.modules()):
        return []
    names = {name for name, _ in trained(model)}
    return [(name, tensor) for name, tensor in model.state_dict().items() if name not in names]


def values_of(owner, leaf, tensor, salt):
    if leaf.startswith("running") or isinstance(owner, FrozenBatchNorm2d):
        owner, leaf = torch.nn.BatchNorm2d(1), {"running_mean": "bias", "running_var": "weight"}.get(leaf, leaf)
    return initial(owner, leaf, tensor, salt, BIAS_SHIFT)


def factor(name):
    """Of initial values. The RPN moves its anchors little: of slivers of regions the coordinates in float are too coarse."""
    return 1 / 32 if name.startswith("rpn.head.bbox_pred") else 1.0


def run(case, dtype):
    model = case.build().train()
    model.transform.min_size, model.transform.max_size = (SIZE,), SIZE
    model.transform.image_mean, model.transform.image_std = [0.0] * 3, [1.0] * 3
    with torch.no_grad():
        for salt, (tensor_name, tensor) in enumerate(trained(model) + frozen(model)):
            owner, _, leaf = tensor_name.rpartition(".")
            tensor.copy_(values_of(model.get_submodule(owner), leaf, tensor, salt))
            tensor.mul_(factor(tensor_name))
    model = model.to(dtype)
    pixels = np.float32(4) * value(BATCH * 3 * SIZE * SIZE, case.image_salt)
    images = torch.from_numpy(pixels).reshape(BATCH, 3, SIZE, SIZE).to(dtype)
    targets = [
        {
            "boxes": torch.tensor([o[:4] for o in objects], dtype=dtype),
            "labels": torch.tensor([o[4] + case.first_label for o in objects]),
        }
        for objects in case.objects
    ]
    losses = model(list(images), targets)
    total = sum(losses.values())
    total.backward()
    return model, {ours: losses[theirs].item() for theirs, ours in case.losses.items()}, total.item()


def golden(name):
    case = DETECTORS[name]
    model, parts, total = run(case, torch.float64)
    model32, _, total32 = run(case, torch.float32)
    floor = 1e-3 * max(p.grad.norm().item() for _, p in trained(model))
    gradients32 = {n: p.grad for n, p in model32.named_parameters()}
    return {
        "detector": name.removesuffix("_frozen"),
        "source": f"tests/golden/make_detectors.py, torchvision {torchvision.__version__.split('+')[0]}, float64",
        "batch": BATCH,
        "image_size": SIZE,
        "image_salt": case.image_salt,
        **({"settings": case.settings} if case.settings else {}),
        "norm_bias_shift": BIAS_SHIFT,
        "classes": CLASSES,
        "formula_check": [float(v) for v in value(4, 7)],
        "objects": [[list(o) for o in objects] for objects in case.objects],
        "float_deviation": {
            "loss": float(f"{abs(total32 - total) / total:.3g}"),
            "gradient_worst": max(deviation(gradients32[n], p.grad, floor) for n, p in trained(model)),
        },
        "loss": total,
        "losses": parts,
        "parameters": [
            {
                "name": parameter_name,
                "shape": list(p.shape),
                **({"factor": factor(parameter_name)} if case.settings else {}),
                "gradient_norm": float(f"{p.grad.norm().item():.9g}"),
                "gradient": samples(p.grad, SAMPLES),
            }
            for parameter_name, p in trained(model)
        ],
        **({"frozen": [name for name, _ in frozen(model)]} if frozen(model) else {}),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    for wanted in sys.argv[1:] or DETECTORS:
        result = golden(wanted)
        path = pathlib.Path(HERE) / f"{wanted}.json"
        write(result, path)
        print(f"{path.name}: {path.stat().st_size} bytes, loss {result['loss']:.6f} {result['losses']}, "
              f"float deviation {result['float_deviation']}")
