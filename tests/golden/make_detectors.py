#!/usr/bin/env python3
"""Writes tests/golden/<detector>.json: losses and gradients of torchvision's detectors in double precision.

usage: python3 tests/golden/make_detectors.py [DETECTOR...]        (needs torch and torchvision)

Weights and images come from the formula of make_golden.py; the objects are listed below. The images need no resizing and
no normalization, so what is compared is the network, its anchors, their matching, and the losses. IMAGE_SALT was chosen
so that no activation of the float run crosses a kink of ReLU (make_golden.py tells more): float_deviation is small.
"""

import pathlib
import sys

import numpy as np
import torch
import torchvision
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.models.detection.retinanet import RetinaNet, _default_anchorgen
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from make_golden import HERE, deviation, initial, samples, value, write

CLASSES, BATCH, SIZE, IMAGE_SALT, BIAS_SHIFT, SAMPLES = 4, 2, 128, 1010, 0, 16
OBJECTS = [  # of each image: x1, y1, x2, y2, label
    [(10.0, 12.0, 52.0, 47.5, 1), (60.0, 30.0, 123.0, 110.0, 0), (3.0, 90.0, 31.0, 120.0, 3)],
    [(20.0, 8.0, 110.0, 100.0, 2), (70.0, 70.0, 103.0, 106.0, 1)],
]


def retinanet():
    backbone = torchvision.models.resnet18(weights=None)
    pyramid = _resnet_fpn_extractor(backbone, 5, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))
    return RetinaNet(pyramid, CLASSES, anchor_generator=_default_anchorgen())


DETECTORS = {"retinanet": (retinanet, {"classification": "loss_class", "bbox_regression": "loss_box"})}


def run(name, dtype):
    build, names = DETECTORS[name]
    model = build().train()
    model.transform.min_size, model.transform.max_size = (SIZE,), SIZE
    model.transform.image_mean, model.transform.image_std = [0.0] * 3, [1.0] * 3
    with torch.no_grad():
        for salt, (parameter_name, parameter) in enumerate(model.named_parameters()):
            owner, _, leaf = parameter_name.rpartition(".")
            parameter.copy_(initial(model.get_submodule(owner), leaf, parameter, salt, BIAS_SHIFT))
    model = model.to(dtype)
    pixels = np.float32(4) * value(BATCH * 3 * SIZE * SIZE, IMAGE_SALT)
    images = torch.from_numpy(pixels).reshape(BATCH, 3, SIZE, SIZE).to(dtype)
    targets = [
        {
            "boxes": torch.tensor([o[:4] for o in objects], dtype=dtype),
            "labels": torch.tensor([o[4] for o in objects]),
        }
        for objects in OBJECTS
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
        "source": f"tests/golden/make_detectors.py, torchvision {torchvision.__version__.split('+')[0]}, float64",
        "batch": BATCH,
        "image_size": SIZE,
        "image_salt": IMAGE_SALT,
        "norm_bias_shift": BIAS_SHIFT,
        "classes": CLASSES,
        "formula_check": [float(v) for v in value(4, 7)],
        "objects": [[list(o) for o in objects] for objects in OBJECTS],
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
