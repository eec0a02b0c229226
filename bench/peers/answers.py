#!/usr/bin/env python3
"""What exported files of a network answer in ONNX Runtime, OpenVINO and LiteRT, beside octet, on CIFAR-10's test images.

usage: answers.py RUN DATA [--weights FILE] [--images N] [--octet PROGRAM]
example: venv/bin/python bench/peers/answers.py runs/resnet20 data/cifar-10-batches-bin

RUN: of a training on CIFAR-10. DATA: the folder of CIFAR-10's binary version. Prints a line for each program: its top-1, and how
often its class is that of octet's integers (`octet predict`). The files are those of `octet export RUN --for ...`.

Needs: pip install numpy pillow onnxruntime openvino ai-edge-litert
"""

import argparse
import csv
import pathlib
import subprocess
import sys
import tempfile

import numpy
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDE, BATCH = 32, 100
sys.path.insert(0, str(ROOT / "docs"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--weights", type=pathlib.Path, help="of the run; default: its best")
    parser.add_argument("--images", type=int, default=10000, help="the first N of the test set")
    parser.add_argument("--octet", default=str(ROOT / "build/release/octet"))
    options = parser.parse_args()
    import run_exported
    rows = numpy.fromfile(options.data / "test_batch.bin", numpy.uint8).reshape(-1, 1 + 3 * SIDE * SIDE)[:options.images]
    labels, pixels = rows[:, 0], rows[:, 1:].reshape(-1, 3, SIDE, SIDE)
    network = [options.run, *(["--weights", options.weights] if options.weights else [])]

    def octet(command, *words):
        subprocess.run([str(word) for word in (options.octet, command, *words)], check=True, stdout=subprocess.DEVNULL)

    def show(name, answers, integers):
        print(f"{name:34} top-1 {100 * (answers == labels).mean():5.2f} %, {int((answers == integers).sum())} of {len(labels)} as "
              "octet's integers", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        (directory / "images").mkdir()
        for i, image in enumerate(pixels):
            Image.fromarray(image.transpose(1, 2, 0)).save(directory / f"images/{i:05}.png")

        def predicted(*words):
            octet("predict", *network, directory / "images", "--top", 1, "--csv", directory / "answers.csv", *words)
            with open(directory / "answers.csv", encoding="utf-8") as file:
                answers = {row["image"]: int(row["index"]) for row in csv.DictReader(file)}
            return numpy.array([answers[name] for name in sorted(answers)])

        integers = predicted("--integer")
        show("octet's integers", integers, integers)
        show("octet, the training's kernels", predicted("--training"), integers)
        images = pixels.astype(numpy.float32) / 255
        for form, file, programs in (("onnxruntime", "a.onnx", ["ONNX Runtime"]), ("openvino", "b.onnx", ["ONNX Runtime", "OpenVINO"]),
                                     ("litert", "c.tflite", ["LiteRT"])):
            octet("export", *network, "--for", form, "--unchecked", "--output", directory / file)
            for program in programs:
                run = run_exported.open_file(str(directory / file), program == "OpenVINO")[1]
                answers = numpy.concatenate([run(images[i:i + BATCH])[0].argmax(1) for i in range(0, len(images), BATCH)])
                show(f"the file for {form}, in {program}", answers, integers)


if __name__ == "__main__":
    main()
