#!/usr/bin/env python3
"""Writes cutmix.json: the rectangles and shares of torchvision's CutMix for given draws.

usage: make_cutmix.py > cutmix.json    needs torchvision
"""

import json
import random
import sys
from unittest import mock

import torch
from torchvision.transforms import v2


def case(share, x, y, height, width):
    transform = v2.CutMix(num_classes=2)
    transform._dist = mock.Mock(sample=lambda shape: torch.tensor(share, dtype=torch.float32))
    with mock.patch("torch.randint", side_effect=[torch.tensor([x]), torch.tensor([y])]):
        made = transform.make_params([torch.zeros(1, 3, height, width)])
    return {"share": float(torch.tensor(share, dtype=torch.float32)), "x": x, "y": y, "height": height, "width": width,
            "left_top_right_bottom": made["box"], "stays": made["lam_adjusted"]}


def main():
    draws = random.Random(1)
    cases = [case(share, 16, 20, 32, 40) for share in (0.0, 1.0, 0.5, 0.75)]
    for height, width in (32, 32), (224, 224), (5, 9), (1, 1):
        for _ in range(12):
            cases.append(case(draws.random(), draws.randrange(width), draws.randrange(height), height, width))
    for i, line in enumerate(cases):
        sys.stdout.write(("[" if i == 0 else ",\n ") + json.dumps(line))
    sys.stdout.write("]\n")


if __name__ == "__main__":
    main()
