#!/usr/bin/env python3
"""Writes tests/golden/detection_operations.json: what torchvision and PyTorch make of given boxes, maps and logits; the oracle of
tests/kernels/test_boxes.cpp, test_detection_losses.cpp and test_roi_pool.cpp.

usage: python3 tests/golden/make_detection_operations.py        (needs torch and torchvision)

Inputs come from value(i, salt) of make_golden.py. Boxes, in float arithmetic: x1 = 128 u, y1 = 96 u, width = 4 + 60 u, height = 4 + 60 u
with u = value(4 i + side, salt) + 0.5 for side 0 to 3. Losses are in double.
"""

import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torchvision.models.detection._utils import BoxCoder, Matcher
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import boxes as box_ops

from make_golden import value

HERE = pathlib.Path(__file__).resolve().parent


def values(shape, salt, factor=1.0):
    return torch.tensor(np.float32(factor) * value(int(np.prod(shape)), salt).astype(np.float32)).reshape(shape)


def make_boxes(count, salt):
    u = value(4 * count, salt).astype(np.float32).reshape(count, 4) + np.float32(0.5)
    corner, size = u[:, :2] * np.float32([128, 96]), np.float32(4) + np.float32(60) * u[:, 2:]
    return torch.tensor(np.concatenate([corner, corner + size], 1))


def numbers(tensor, digits=9):
    return [float(f"{x:.{digits}g}") for x in tensor.detach().flatten().tolist()]


def anchors_of(sizes, ratios, maps, image):
    generator = AnchorGenerator(tuple(sizes), tuple([tuple(ratios)] * len(sizes)))
    images = ImageList(torch.zeros(1, 3, *image), [image])
    return generator(images, [torch.zeros(1, 1, *shape) for shape in maps])[0]


def boxes_cases():
    pyramid = anchors_of([(32.0,), (64.0,)], [0.5, 1.0, 2.0], [(4, 6), (2, 3)], (32, 48))
    retina = anchors_of([(32.0, 40.0, 50.0), (64.0, 80.0, 101.0)], [0.5, 1.0, 2.0], [(4, 6), (2, 3)], (32, 48))
    a, b = make_boxes(24, 1), make_boxes(24, 2)
    cases = {"pyramid_anchors": numbers(pyramid), "retina_anchors": numbers(retina), "overlaps": numbers(box_ops.box_iou(a, b))}
    coder = BoxCoder((10.0, 10.0, 5.0, 5.0))
    cases["codes"] = numbers(coder.encode_single(a, b))
    wild = values((24, 4), 3, 40)
    cases["decoded"] = numbers(coder.decode_single(wild, b))
    many, scores = make_boxes(80, 4), values((80,), 5)
    cases["kept"] = box_ops.nms(many, scores, 0.3).tolist()
    objects = make_boxes(5, 6) * 0.5
    for name, high, low, every in [("rpn", 0.7, 0.3, True), ("retina", 0.5, 0.4, True), ("roi", 0.5, 0.5, False)]:
        cases["matches_" + name] = Matcher(high, low, every)(box_ops.box_iou(objects, pyramid)).tolist()
    return cases


def roi_cases():
    x, rois = values((2, 3, 20, 26), 11), make_boxes(6, 12)
    rows = torch.cat([torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]]), rois], 1)
    cases = {}
    for sampling in (2, 0):
        for aligned in (False, True):
            y = torchvision.ops.roi_align(x, rows, (3, 4), 0.125, sampling if sampling > 0 else -1, aligned)
            cases[f"align_{sampling}_{int(aligned)}"] = numbers(y)
    cases["max"] = numbers(torchvision.ops.roi_pool(x, rows, (3, 4), 0.125))
    # The regions lie inside of the map by a pixel or more: torchvision leaves the last row and column out.
    deep = values((2, 2 * 9, 30, 36), 13)
    cases["position_sensitive"] = numbers(torchvision.ops.ps_roi_pool(deep, rows, 3, 0.125))
    return cases


def loss_cases():
    logits = torch.cat([values((1, 20), 21, 20).double(), torch.tensor([[-80.0, 80.0, 0.0, 1e-3]], dtype=torch.double)], 1)
    cases = {}
    for name, alpha, gamma in [("plain", -1, 0), ("focal", 0.25, 2), ("other", 0.4, 1.5)]:
        for positive in (0, 1):
            x = logits.clone().requires_grad_()
            target = torch.full_like(x, positive)
            loss = torchvision.ops.sigmoid_focal_loss(x, target, alpha, gamma, reduction="none")
            loss.sum().backward()
            cases[f"sigmoid_{name}_{positive}"] = {"loss": numbers(loss, 12), "gradient": numbers(x.grad, 12)}
    for name, beta in [("0", 0.0), ("ninth", float(np.float32(1) / np.float32(9))), ("1", 1.0)]:
        x = values((24,), 22, 4).double().requires_grad_()
        loss = F.smooth_l1_loss(x, torch.zeros_like(x), beta=beta, reduction="none")
        loss.sum().backward()
        cases["box_" + name] = {"loss": numbers(loss, 12), "gradient": numbers(x.grad, 12)}
    return cases


def main():
    golden = {"torch": torch.__version__, "torchvision": torchvision.__version__, "boxes": boxes_cases(), "roi": roi_cases(),
              "losses": loss_cases()}
    with open(HERE / "detection_operations.json", "w") as file:
        file.write(json.dumps(golden, separators=(",", ":")).replace("],", "],\n").replace("{", "{\n") + "\n")


if __name__ == "__main__":
    main()
