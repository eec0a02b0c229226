#!/usr/bin/env python3
"""Writes evaluation_images.json: image files, and the pixels that torchvision's evaluation of ImageNet reads of each.

usage: make_evaluation_images.py [--side N] [FILE...] > evaluation_images.json    needs torchvision and Pillow
  FILE...   image files to take instead of those that are made here

The transform is Resize(N * 256 / 224), CenterCrop(N) on Pillow's image, turned upright as EXIF says. To compare octet on
other files: OCTET_EVALUATION_IMAGES=/path/of/output.json test_data --gtest_filter='EvaluationImages.*'
"""

import argparse
import io
import json
import pathlib
import sys

from PIL import Image, ImageOps
from torchvision import transforms


def picture(width, height, mode="RGB"):
    """A smooth pattern with a few edges, another in each channel."""
    image = Image.new("RGB", (width, height))
    image.putdata([((5 * x + 3 * y) % 256, (x * x // 9 + 2 * y) % 256, 230 if (x // 7 + y // 5) % 2 else 3 * x % 256)
                   for y in range(height) for x in range(width)])
    return image.convert(mode)


def file_of(image, kind, orientation=1, **options):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    image.save(stream, kind, **options, **({"exif": exif} if orientation > 1 else {}))
    return stream.getvalue()


def made():
    """Names, files and sides."""
    yield "png", file_of(picture(61, 40), "PNG"), 14
    yield "png, high", file_of(picture(33, 75), "PNG"), 14
    yield "png, odd margins", file_of(picture(50, 43), "PNG"), 19
    yield "png, made larger", file_of(picture(9, 13), "PNG"), 14
    yield "png, not resized", file_of(picture(16, 21), "PNG"), 14
    yield "png, two to one", file_of(picture(32, 46), "PNG"), 14
    yield "png, narrow", file_of(picture(3, 150), "PNG"), 14
    yield "png, gray", file_of(picture(40, 30, "L"), "PNG"), 14
    yield "png, two colours", file_of(picture(40, 30, "1"), "PNG"), 14
    yield "png, palette", file_of(picture(40, 30).quantize(16), "PNG", transparency=3), 14
    alpha = picture(40, 30, "RGBA")
    alpha.putalpha(picture(40, 30, "L"))
    yield "png, alpha", file_of(alpha, "PNG"), 14
    yield "png, gray and alpha", file_of(alpha.convert("LA"), "PNG"), 14
    for subsampling in 0, 1, 2:
        yield f"jpeg, {subsampling}", file_of(picture(75, 50), "JPEG", subsampling=subsampling), 14
    yield "jpeg, progressive", file_of(picture(75, 50), "JPEG", progressive=True), 14
    yield "jpeg, much larger", file_of(picture(301, 222), "JPEG", quality=50), 14
    yield "jpeg, gray", file_of(picture(75, 50, "L"), "JPEG"), 14
    yield "jpeg, cmyk", file_of(picture(75, 50, "CMYK"), "JPEG"), 14
    for orientation in range(2, 9):
        yield f"jpeg, orientation {orientation}", file_of(picture(40, 27), "JPEG", orientation, quality=50), 14
    yield "png, orientation 6", file_of(picture(40, 27), "PNG", 6), 14


def pixels(file, side):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")
    transform = transforms.Compose([transforms.Resize(int(side * 256 / 224 + 0.5)), transforms.CenterCrop(side)])
    return transform(image).tobytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    images = [(str(file), file.read_bytes(), arguments.side) for file in arguments.files] or made()
    cases = [{"name": name, "side": side, "file": file.hex(), "pixels": pixels(file, side).hex()}
             for name, file, side in images]
    json.dump(cases, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
