#!/usr/bin/env python3
"""Runs a file that `octet export` wrote: names the classes of photographs, or checks the file with the images of --check-with.

usage: run_exported.py FILE.onnx [--openvino] PHOTOGRAPH...
       run_exported.py FILE.onnx [--openvino] --check DIR
needs: numpy, pillow, and onnxruntime or openvino
"""
import json
import sys

import numpy as np
from PIL import Image, ImageOps


def open_onnx(file):
    import onnxruntime
    session = onnxruntime.InferenceSession(file)
    return session.get_modelmeta().custom_metadata_map, lambda images: session.run(None, {"images": images})[0]


def open_openvino(file):
    import openvino
    core = openvino.Core()
    model = core.read_model(file)
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})  # bf16 otherwise where it is fast
    metadata = {key: value.astype(str) for key, value in model.get_rt_info("framework").items()}
    return metadata, lambda images: compiled(images)[0]


def pixels(path, steps):
    """3 x H x W, red, green and blue in [0, 1], as octet prepares a photograph."""
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    shorter, side = steps["resize_shorter_side"], steps["crop_middle"]
    image = image.resize([shorter * length // min(image.size) for length in image.size], Image.Resampling.BILINEAR)
    left, top = (round((length - side) / 2) for length in image.size)
    image = image.crop((left, top, left + side, top + side))
    return np.asarray(image, np.float32).transpose(2, 0, 1) / 255


def main(file, *photographs):
    openvino = "--openvino" in photographs  # in place of onnxruntime
    photographs = [word for word in photographs if word != "--openvino"]
    metadata, run = (open_openvino if openvino else open_onnx)(file)
    classes, steps = json.loads(metadata["classes"]), json.loads(metadata["preprocessing"])
    if photographs[0] == "--check":
        images, expected = (np.load(f"{photographs[1]}/{name}.npy") for name in ("images", "logits"))
        logits = run(images)
        same = int((logits.argmax(1) == expected.argmax(1)).sum())
        print(f"{same} of {len(images)} images have octet's class; logits differ by at most {abs(logits - expected).max():.4f}")
        return
    for path in photographs:
        logits = run(pixels(path, steps)[None])[0]
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        best = int(logits.argmax())
        print(f"{path}: {classes[best]} {100 * probabilities[best]:.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
