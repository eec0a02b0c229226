#!/usr/bin/env python3
"""Images per second of `octet predict` and of ONNX Runtime: ResNet-18, the same weights, the same image files.

usage: predict.py WEIGHTS IMAGES... [--octet PROGRAM] [--threads N] [--rounds N]

WEIGHTS: octet's, of a ResNet-18 with ranges of activations. ONNX Runtime runs the same network in fp32, and in INT8 as
its quantize_static makes it (QDQ, per channel, calibrated on the first 32 images). The three take turns. Each reads the
files, resizes, crops 224 pixels, and computes batches of 32; octet's time includes its start. Also prints how often the
first answer is that of ONNX Runtime in fp32.

Needs: pip install numpy pillow onnx onnxruntime safetensors
"""

import argparse
import concurrent.futures
import csv
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from PIL import Image
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEAN, DEVIATION = numpy.float32([0.485, 0.456, 0.406]), numpy.float32([0.229, 0.224, 0.225])
BATCH = 32


class ResNet18:
    """The network as an ONNX graph, with the names of torchvision's tensors."""

    def __init__(self, weights):
        self.weights, self.nodes = weights, []
        x = self.conv("images", "conv1", "bn1", 7, 2, relu=True)
        x = self.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        for stage in 1, 2, 3, 4:
            for block in 0, 1:
                x = self.block(x, f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1)
        x = self.add("Flatten", [self.add("GlobalAveragePool", [x])])
        self.add("Gemm", [x, "fc.weight", "fc.bias"], to="logits", transB=1)
        used = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes, "resnet18", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 224, 224])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(weights["fc.bias"])])],
            [numpy_helper.from_array(value, name) for name, value in weights.items() if name in used])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def add(self, kind, inputs, to=None, **attributes):
        to = to or f"edge{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [to], **attributes))
        return to

    def conv(self, x, conv, norm, size, stride, relu):
        pad = size // 2
        x = self.add("Conv", [x, conv + ".weight"], kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)
        x = self.add("BatchNormalization",
                     [x] + [f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var")], epsilon=1e-5)
        return self.add("Relu", [x]) if relu else x

    def block(self, x, name, stride):
        y = self.conv(x, name + ".conv1", name + ".bn1", 3, stride, relu=True)
        y = self.conv(y, name + ".conv2", name + ".bn2", 3, 1, relu=False)
        if name + ".downsample.0.weight" in self.weights:
            x = self.conv(x, name + ".downsample.0", name + ".downsample.1", 1, stride, relu=False)
        return self.add("Relu", [self.add("Add", [y, x])])


def pixels_of(file):
    """The shorter side becomes 256 pixels; the middle 224 are used."""
    image = Image.open(file).convert("RGB")
    scale = 256 / min(image.size)
    image = image.resize([max(256, int(side * scale)) for side in image.size], Image.Resampling.BILINEAR)
    left, top = (round((side - 224) / 2) for side in image.size)
    values = numpy.asarray(image.crop((left, top, left + 224, top + 224)), numpy.float32) / 255
    return ((values - MEAN) / DEVIATION).transpose(2, 0, 1)


class Calibration(CalibrationDataReader):
    def __init__(self, files):
        self.batches = iter([{"images": pixels_of(file)[None]} for file in files])

    def get_next(self):
        return next(self.batches, None)


def runtime_answers(model, files, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    session.run(None, {"images": numpy.zeros((1, 3, 224, 224), numpy.float32)})
    start, answers = time.perf_counter(), []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        batches = [files[first:first + BATCH] for first in range(0, len(files), BATCH)]
        ahead = [pool.submit(pixels_of, file) for file in batches[0]]
        for number in range(len(batches)):
            images = numpy.stack([task.result() for task in ahead])
            ahead = [pool.submit(pixels_of, file) for file in batches[number + 1]] if number + 1 < len(batches) else []
            answers.extend(session.run(None, {"images": images})[0].argmax(1))
    return len(files) / (time.perf_counter() - start), [int(answer) for answer in answers]


def octet_answers(arguments, files, directory):
    listed, table = directory / "files.txt", directory / "answers.csv"
    listed.write_text("\n".join(map(str, files)))
    start = time.perf_counter()
    with listed.open() as names:
        subprocess.run([arguments.octet, "predict", arguments.weights, "-", "--csv", table, "--set", f"data.batch={BATCH}", "--set",
                        f"data.workers={arguments.threads}", "--set", f"backend.threads={arguments.threads}"],
                       stdin=names, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    with table.open() as rows:
        first = {row["image"]: int(row["index"]) for row in csv.DictReader(rows) if row["rank"] == "1"}
    return len(files) / seconds, [first[str(file)] for file in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("images", nargs="+", type=pathlib.Path)
    parser.add_argument("--octet", default=str(ROOT / "build/release/octet"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    files = arguments.images
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        real, prepared, codes = (directory / name for name in ("fp32.onnx", "prepared.onnx", "int8.onnx"))
        onnx.save(ResNet18(load_file(arguments.weights)).model, real)
        quant_pre_process(str(real), str(prepared), skip_symbolic_shape=True)
        quantize_static(str(prepared), str(codes), Calibration(files[:32]), quant_format=QuantFormat.QDQ, per_channel=True,
                        weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)
        programs = {"ONNX Runtime fp32": lambda: runtime_answers(real, files, arguments.threads),
                    "ONNX Runtime INT8": lambda: runtime_answers(codes, files, arguments.threads),
                    "octet INT8": lambda: octet_answers(arguments, files, directory)}
        speeds, answers = {name: [] for name in programs}, {}
        for _ in range(arguments.rounds):
            for name, program in programs.items():
                speed, answers[name] = program()
                speeds[name].append(speed)
    print(f"onnxruntime {onnxruntime.__version__}, {arguments.threads} threads, {len(files)} images, {arguments.rounds} rounds")
    expected = answers["ONNX Runtime fp32"]
    for name, values in speeds.items():
        same = sum(a == b for a, b in zip(answers[name], expected)) / len(files)
        print(f"{name:18} {statistics.median(values):6.1f} images/s ({min(values):.1f} to {max(values):.1f}), "
              f"{100 * same:.1f} % of the first answers as fp32")


if __name__ == "__main__":
    main()
