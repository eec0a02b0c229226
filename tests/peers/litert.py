#!/usr/bin/env python3
"""Runs exported networks with LiteRT, and compares what they say with octet on CIFAR-10's test images.

usage: tests/peers/litert.py [--images N] RUN...
  RUN         directory of a run that was trained on CIFAR-10
  --images N  the first N test images alone
environment: OCTET  the program (default: build/release/octet of this checkout)
Needs the Python packages numpy and ai-edge-litert. Exits with 1 if a top-1 is not within 0.2 points of octet's.
"""

import argparse
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed")
    sys.exit(0)

ROOT = pathlib.Path(__file__).resolve().parents[2]
OCTET = os.environ.get("OCTET", str(ROOT / "build/release/octet"))
SIDE = 32
BATCH = 100
BAR = 0.2  # points of top-1
KERNELS = {"XNNPACK": OpResolverType.AUTO, "reference": OpResolverType.BUILTIN_REF}


def octet(*arguments):
    return subprocess.run([OCTET, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def test_images(run):
    """Pixels (N, 32, 32, 3) and labels (N) of the test set."""
    root = re.search(r"(?m)^data:\n(?: .*\n)*?  root: \"?([^\"\n]*)", (run / "config.yaml").read_text())[1]
    rows = np.fromfile(pathlib.Path(root) / "test_batch.bin", np.uint8).reshape(-1, 1 + 3 * SIDE * SIDE)
    return np.ascontiguousarray(rows[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)), rows[:, 0]


def png(pixels):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def octet_logits(run, images, folder):
    """What the training's kernels say."""
    for i, pixels in enumerate(images):
        (folder / f"{i:05}.png").write_bytes(png(pixels))
    lines = octet("predict", run, folder, "--training", "--json", "-", "--logits").splitlines()
    return np.array([logits for _, logits in sorted((line["image"], line["logits"]) for line in map(json.loads, lines))])


def litert_logits(file, images, resolver):
    interpreter = Interpreter(str(file), num_threads=1, experimental_op_resolver_type=resolver)
    index = interpreter.get_input_details()[0]["index"]
    output = interpreter.get_output_details()[0]["index"]
    logits = []
    for batch in np.array_split(images, -(-len(images) // BATCH)):
        interpreter.resize_tensor_input(index, batch.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(index, batch)
        interpreter.invoke()
        logits.append(interpreter.get_tensor(output))
    return np.concatenate(logits)


def compare(run, count):
    images, labels = (of[:count] for of in test_images(run))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        octet("export", run, "--for", "litert", "--output", folder / "network.tflite", "--unchecked")
        (folder / "images").mkdir()
        trained = octet_logits(run, images, folder / "images")
        expected = 100 * (trained.argmax(1) == labels).mean()
        print(f"{run.name}: octet {expected:.2f} % top-1 of {len(labels)} images")
        fine = True
        for name, resolver in KERNELS.items():
            logits = litert_logits(folder / "network.tflite", images, resolver)
            top1 = 100 * (logits.argmax(1) == labels).mean()
            same = 100 * (logits.argmax(1) == trained.argmax(1)).mean()
            fine = fine and abs(top1 - expected) <= BAR
            print(f"  LiteRT, {name}: {top1:.2f} % top-1, octet's class for {same:.2f} % of the images", flush=True)
    return fine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    if not all([compare(run, options.images) for run in options.runs]):
        sys.exit(f"a top-1 differs by more than {BAR} points")


main()
