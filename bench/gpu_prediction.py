#!/usr/bin/env python3
"""Predicts a training step of ResNet-50 or MobileNetV2 with 256 images on a GPU, without one. Bytes and operations follow
from shapes, instructions from the compiled kernels: a part of the step takes as long as the largest of the three at the
rates below. One row is ResNet-50's measured time and stands in MobileNetV2's prediction, too: see MEASURED.

usage: tests/cuda_build.sh --budgets && bench/gpu_prediction.py [--network mobilenet_v2] [--most MILLISECONDS] [FOLDER]
FOLDER: the kernels for sm_90, build/cuda_build by default. --most: exit with 1 where an H200 is predicted to need more.
"""

import argparse
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import cuda_opcodes  # noqa: E402

BATCH = 256
GPUS = {"H200": 3.6e12, "H100": 2.7e12}  # bytes a second: nine tenths of what copies reach
ISSUED = 0.72 * 132 * 4 * 1.83e9         # instructions of warps a second: the share that elementwise kernels of an H200 reached
OPERATIONS = 650e12                      # of codes a second, by mma.sync
LAUNCH = 1.25e-6                         # seconds between two kernels of a graph
# octet_emulated bench with backend.check_kernels, less histograms of the first steps, with the slices of 256 images
LAUNCHES = {"resnet50": 318, "mobilenet_v2": 334}
DEPTHWISE = 14.6  # of an output, counted by hand: the kernel also holds what its last block does once
STEP = 110  # counted by hand in a loop that does more than this: 64 bytes of k of a convolution on tensor cores

# Milliseconds of an H200's kernels in a step of ResNet-50 that neither bytes nor instructions explain
# (docs/results/data/speed-h200.json), launches left out, less what no longer runs: padded images, coefficients of gradients, a
# transposition for each layer.
# MobileNetV2's were not taken apart; the prediction adds the same.
MEASURED = {"last layer, update, small kernels": 2.3 - 0.36 - 0.17 - 0.15 - 0.25}


class Kernels:
    """Instructions of the kernels in a folder of cubins."""

    def __init__(self, folder):
        self.code = {}
        for path in sorted(pathlib.Path(folder).glob("*.90.cubin")):
            self.code.update(cuda_opcodes.kernels_of(path))

    def _code(self, part):
        found = [code for name, code in self.code.items() if part in name]
        if not found:
            sys.exit(f"no kernel has {part} in its name: run tests/cuda_build.sh --budgets")
        return max(found, key=len)

    def all(self, part):
        return len(cuda_opcodes.body_of(self._code(part)))

    def affine_forward(self, added, activation):  # for 32 elements
        return self.all(f"15AffineForwardOfILNS_5DTypeE1ELNS0_5AddedE{added}ELNS_10ActivationE{activation}EEELNS1_7WrittenE1") / 64

    def longest_loop(self, part):
        return max(end - first for first, end in cuda_opcodes.loops_of(self._code(part)))

    def loops(self, part):
        """The lengths of the loops that hold tensor-core instructions, the inner one first."""
        code = self._code(part)
        return sorted(end - first for first, end in cuda_opcodes.loops_of(code)
                      if any(cuda_opcodes.is_opcode(i, "IMMA") for i in code[first:end]))


@dataclasses.dataclass
class Layer:
    """A convolution of codes with its norm. extent: of its output; depthwise where `depth`."""
    inputs: int
    outputs: int
    kernel: int
    stride: int
    extent: int
    activation: int = 1  # none, ReLU, ReLU6
    residual: bool = False
    depth: bool = False
    adds: float = 0         # the share of its data gradient that is added to what is there already, perhaps with a mask
    shortcut: bool = False  # its data gradient is of even pixels alone, if its stride is 2
    sums: bool = True       # its data gradient sums for the norm that made its input
    summed: bool = True     # the data gradient of the layer behind it sums for its norm


def resnet50():
    """The layers behind the first."""
    inputs, extent = 64, 56
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            yield Layer(inputs, width, 1, 1, extent, adds=1 / stride**2, sums=stage + block > 0, summed=stride == 1)
            yield Layer(width, width, 3, stride, extent // stride, sums=stride == 1)
            if block == 0:
                yield Layer(inputs, 4 * width, 1, stride, extent // stride, activation=0, shortcut=True, sums=False, summed=False)
            yield Layer(width, 4 * width, 1, 1, extent // stride, residual=True, summed=stage < 3 or block < 2)
            inputs, extent = 4 * width, extent // stride


def mobilenet_v2():
    """The layers behind the first."""
    inputs, extent = 32, 112
    for expansion, outputs, blocks, first_stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                                     (6, 160, 3, 2), (6, 320, 1, 1)]:
        for block in range(blocks):
            stride, width = first_stride if block == 0 else 1, expansion * inputs
            if expansion > 1:
                yield Layer(inputs, width, 1, 1, extent, activation=2, adds=stride == 1 and block + 1 < blocks, summed=False)
            extent //= stride
            yield Layer(width, width, 3, stride, extent, activation=2, depth=True)
            yield Layer(width, outputs, 1, 1, extent, activation=0, residual=block > 0)
            inputs = outputs
    yield Layer(inputs, 1280, 1, 1, extent, activation=2, summed=False)


# By name: the layers, outputs of the first layer, bytes of one of its outputs' taps in pieces of two by two pixels, whether a pool
# follows.
NETWORKS = {"resnet50": (resnet50, 64, 256, True), "mobilenet_v2": (mobilenet_v2, 32, 64, False)}


def tiles(pixels, channels):
    """Warp tiles of 64 x 32 outputs, in blocks of 128 x 128 or 128 x 64."""
    wide = 128 if channels % 128 == 0 or channels > 512 else 64
    return -(-pixels // 128) * -(-channels // wide) * (2 * wide // 32)


def parts(kernels, network):
    """{part of the step: [(bytes, instructions of warps, operations) of each kernel]}"""
    def affine(layer):
        return kernels.affine_forward(int(layer.residual), layer.activation)

    def backward(layer):
        return f"16AffineBackwardOfILNS_5DTypeE1ELS4_1ELb{int(layer.activation > 0 or layer.shortcut)}"

    def encode(layer):
        return kernels.all(f"encode_eightsINS0_{backward(layer)}ELb0EEELNS1_7WrittenE3") / 32

    def sums(layer):
        return kernels.longest_loop(f"6reduceILi8ENS0_{backward(layer)}") / 64  # a chunk of 64 pixels for 32 channels

    def gather(outputs, steps):  # a tile of a warp; the loop of steps begins the next tile, too
        return kernels.loops(f"gather_tilesILi128ELNS0_7OutputsE{outputs}")[1] + STEP * (steps - 1)

    weight = {kernel: kernels.loops(f"turned_weightILi128ELi128ELb{int(kernel == 1)}")[0] for kernel in (1, 3)}
    depth, depth_weight = DEPTHWISE, kernels.all("depthwise_weightILi1") / 32
    step_of = {}

    def add(part, moved, instructions=0, operations=0):
        step_of.setdefault(part, []).append((moved, instructions, operations))

    layers, first_outputs, first_k, pooled = NETWORKS[network]
    for layer in layers():
        pixels, read = layer.extent**2 * BATCH, (layer.extent * layer.stride)**2 * BATCH
        y, x = pixels * layer.outputs, read * layer.inputs
        if layer.depth:
            add("depthwise, forward", x + 2 * y, depth * y / 32)
            add("depthwise, data gradients", y + 2 * x, depth * x / 32)
            add("depthwise, weight gradients", x + y, depth_weight * y / 32)
        else:
            k = layer.kernel**2 * layer.inputs
            operations, steps = 2 * y * k, -(-layer.kernel**2 * layer.outputs // 64)
            if layer.shortcut:
                read, x = read / layer.stride**2, x / layer.stride**2
            else:
                steps /= layer.stride**2  # of the average phase
            add("forward convolutions", x + 2 * y, tiles(pixels, layer.outputs) * gather(1, -(-k // 64)), operations)
            add("data gradients", y + (2 + 2.25 * layer.sums + 2.125 * layer.adds) * x, tiles(read, layer.inputs) * gather(2 if layer.sums else 0, steps),
                operations)
            add("weight gradients", x + y, -(-layer.outputs // 64) * -(-k // 32) * pixels / 64 * weight[layer.kernel], operations)
        bits, read_bits = 0.125 * (layer.activation > 0), 0.125 * (layer.activation > 0 or layer.shortcut)
        add("norm, activation, encoding", (3 + bits + layer.residual) * y, affine(layer) * y / 32)
        if layer.summed:
            add("norm backward, sums", 0.125 * y)
        else:
            add("norm backward, sums", (4 + read_bits) * y, sums(layer) * y / 32)
        add("norm backward, encoding", (5 + read_bits) * y, encode(layer) * y / 32)
    pixels, images, layer = 112**2 * BATCH, 4 * 224**2 * BATCH, Layer(3, first_outputs, 3, 2, 112)  # images: bytes
    first, columns, digits = first_outputs * pixels, 4 * first_outputs, 3 * first_outputs
    add("first layer, forward", 2 * images)
    add("first layer, forward", images + 2 * first, tiles(pixels, columns) * gather(5, -(-first_k // 64)), 2 * pixels * digits * first_k)
    add("first layer, weight gradient", 4 * first, kernels.longest_loop("raise_largest") * first / 32)
    loop = kernels.longest_loop("encode_gradientsILi4")  # four channels of one of 16 pixels
    loop += (kernels.all("encode_gradientsILi4") - loop) / 16
    add("first layer, weight gradient", 7 * first, loop * first / 128)
    add("first layer, weight gradient", 3 * images + 3 * first, -(-digits // 64) * -(-first_k // 32) * pixels / 64 * weight[3],
        2 * pixels * digits * first_k)
    add("first layer's norm and its gradient", (3.125 + 4.125 + 5.125) * first, (affine(layer) + sums(layer) + encode(layer)) * first / 32)
    if pooled:
        add("pools", 1.5 * first + 3.75 * first)
    return step_of


def counts(kernels):
    """Instructions of warps: for 32 elements of a pass with ReLU or ReLU6, for the epilogue and what begins the next tile of a
    convolution."""
    relu, relu6, behind_a_sum = (kernels.affine_forward(*case) for case in ((0, 1), (0, 2), (1, 1)))
    return {"norm, activation, encoding": f"{relu:.1f}, {relu6:.1f}, behind a sum {behind_a_sum:.1f}",
            "norm backward, encoding": f"{kernels.all('encode_eightsINS0_16AffineBackwardOfILNS_5DTypeE1ELS4_1ELb1ELb0') / 32:.1f}",
            "forward convolution, a warp's tile": f"{kernels.loops('gather_tilesILi128ELNS0_7OutputsE1')[1] - STEP}"}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--network", choices=NETWORKS, default="resnet50")
    arguments.add_argument("--most", type=float)
    arguments.add_argument("folder", nargs="?", default="build/cuda_build")
    arguments = arguments.parse_args()
    launches = LAUNCHES[arguments.network]
    total = dict.fromkeys(GPUS, launches * LAUNCH * 1e3)
    print(f"{'ms':<38} {'bytes':>7} {'issue':>7} {'products':>8}   " + " ".join(f"{gpu:>6}" for gpu in GPUS))
    for part, kernels in parts(Kernels(arguments.folder), arguments.network).items():
        row, columns = [], [0, 0, 0]
        for gpu, bandwidth in GPUS.items():
            times = [[1e3 * moved / bandwidth, 1e3 * issued / ISSUED, 1e3 * operations / OPERATIONS]
                     for moved, issued, operations in kernels]
            row.append(sum(map(max, times)))
            columns = columns if any(columns) else [sum(column) for column in zip(*times)]
            total[gpu] += row[-1]
        print(f"{part:<38} {columns[0]:7.1f} {columns[1]:7.1f} {columns[2]:8.1f}   " + " ".join(f"{ms:6.1f}" for ms in row))
    for part, ms in MEASURED.items():
        print(f"{part + ', as measured':<62}   " + " ".join(f"{ms:6.1f}" for _ in GPUS))
        total = {gpu: sum_of + ms for gpu, sum_of in total.items()}
    print(f"{f'{launches} launches':<38} {'':24}   " + " ".join(f"{launches * LAUNCH * 1e3:6.1f}" for _ in GPUS))
    print(f"{'together':<38} {'':24}   " + " ".join(f"{ms:6.1f}" for ms in total.values()))
    for what, count in counts(Kernels(arguments.folder)).items():
        print(f"instructions: {what + ':':<36} {count}")
    if arguments.most is not None and total["H200"] > arguments.most:
        sys.exit(f"more than {arguments.most} ms")


if __name__ == "__main__":
    main()
