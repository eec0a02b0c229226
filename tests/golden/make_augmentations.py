#!/usr/bin/env python3
"""Writes augmentations.json: a picture, and what torchvision's operations of RandAugment and ColorJitter make of it.

usage: make_augmentations.py > augmentations.json    needs torchvision and Pillow
"""

import json
import sys

import torch
from PIL import Image
from torchvision.transforms import autoaugment, functional

SIZES = [(21, 15), (32, 32)]
MAGNITUDES = [9, 15, 30]


def picture(width, height):
    image = Image.new("RGB", (width, height))
    image.putdata([((11 * x + 7 * y) % 256, (x * x + 5 * y) % 200 + 20, 230 if (x // 4 + y // 3) % 2 else 9 * x % 256)
                   for y in range(height) for x in range(width)])
    return image


def operations(image):
    """Names, magnitudes, directions and pixels."""
    space = autoaugment.RandAugment()._augmentation_space(31, (image.height, image.width))
    for name, (strengths, signed) in space.items():
        if name == "Identity":
            continue
        magnitudes = MAGNITUDES if strengths.ndim > 0 else [0]
        for magnitude in magnitudes:
            for negative in [False, True] if signed else [False]:
                strength = float(strengths[magnitude].item()) if strengths.ndim > 0 else 0.0
                result = autoaugment._apply_op(image, name, -strength if negative else strength,
                                               interpolation=functional.InterpolationMode.NEAREST, fill=None)
                yield {"operation": name, "magnitude": magnitude, "negative": negative, "pixels": result.tobytes().hex()}
    for steps in -127, -40, 1, 77, 127:
        yield {"operation": "Hue", "magnitude": steps, "negative": False,
               "pixels": functional.adjust_hue(image, (steps + (0.5 if steps > 0 else -0.5)) / 255).tobytes().hex()}


def main():
    torch.set_num_threads(1)
    pictures = []
    for width, height in SIZES:
        image = picture(width, height)
        pictures.append({"width": width, "height": height, "pixels": image.tobytes().hex(),
                         "results": list(operations(image)) if width == 21 else []})
    # The larger picture tells all colours of hue apart; one operation of each kind is enough there.
    image = picture(*SIZES[1])
    pictures[1]["results"] = [case for case in operations(image)
                              if case["operation"] in ("Hue", "Equalize", "AutoContrast") or case["magnitude"] == 9
                              and case["operation"] in ("Rotate", "TranslateX", "Sharpness")]
    json.dump(pictures, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
