#!/usr/bin/env python3
"""octet's integer networks beside ONNX Runtime's INT8: images per second and peak memory of whole processes.

usage: deployed.py [NETWORK ...] [--batches N ...] [--threads N] [--rounds N] [--seconds S] [--octet PROGRAM] [--json]
example: venv/bin/python bench/peers/deployed.py resnet18 mobilenet_v2

Networks: resnet18, resnet50, mobilenet_v2, of 224 pixels and 1000 classes. Their weights are random: neither side's speed depends on
values. octet runs `octet bench --deployed`. ONNX Runtime runs the file that its quantize_static makes of the same network with
folded norms: QDQ, per channel, activations u8, weights s8, all layers. Both take normalized images as fp32 and give fp32 logits.
They take turns, a process each, on the same cores; a round's figure is the median of its answers.

Needs: pip install numpy onnx onnxruntime
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDE, CLASSES = 224, 1000
NETWORKS = ["resnet18", "resnet50", "mobilenet_v2"]


class Builder:
    """Convolutions with folded norms, as an ONNX graph."""

    def __init__(self):
        import numpy
        self.random, self.nodes, self.values = numpy.random.default_rng(1), [], []

    def add(self, kind, inputs, to=None, **attributes):
        from onnx import helper
        to = to or f"edge{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [to], **attributes))
        return to

    def constant(self, values):
        from onnx import numpy_helper
        self.values.append(numpy_helper.from_array(values.astype("float32"), f"constant{len(self.values)}"))
        return self.values[-1].name

    def conv(self, x, inputs, outputs, kernel, stride=1, groups=1, activation=None):
        fan_in = inputs // groups * kernel * kernel
        weight = self.random.normal(0, (2 / fan_in) ** 0.5, (outputs, inputs // groups, kernel, kernel))
        pad = kernel // 2
        y = self.add("Conv", [x, self.constant(weight), self.constant(self.random.normal(0, 0.1, outputs))],
                     kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4, group=groups)
        if activation == "relu6":
            import numpy
            return self.add("Clip", [y, self.constant(numpy.float32(0)), self.constant(numpy.float32(6))])
        return self.add("Relu", [y]) if activation else y

    def head(self, x, channels):
        x = self.add("Flatten", [self.add("GlobalAveragePool", [x])])
        weight = self.random.normal(0, 0.01, (CLASSES, channels))
        self.add("Gemm", [x, self.constant(weight), self.constant(self.random.normal(0, 0.1, CLASSES))], to="logits", transB=1)

    def model(self):
        from onnx import TensorProto, helper
        graph = helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])], self.values)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def resnet(blocks, bottleneck):
    net = Builder()
    x = net.conv("images", 3, 64, 7, 2, activation="relu")
    x = net.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        out = 4 * width if bottleneck else width
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            if bottleneck:
                y = net.conv(x, channels, width, 1, activation="relu")
                y = net.conv(y, width, width, 3, stride, activation="relu")
                y = net.conv(y, width, out, 1)
            else:
                y = net.conv(net.conv(x, channels, width, 3, stride, activation="relu"), width, out, 3)
            shortcut = x if channels == out and stride == 1 else net.conv(x, channels, out, 1, stride)
            x = net.add("Relu", [net.add("Add", [y, shortcut])])
            channels = out
    net.head(x, channels)
    return net.model()


def mobilenet_v2():
    net = Builder()
    x, channels = net.conv("images", 3, 32, 3, 2, activation="relu6"), 32
    for expansion, out, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                           (6, 320, 1, 1)):
        for block in range(blocks):
            step, hidden = stride if block == 0 else 1, channels * expansion
            y = net.conv(x, channels, hidden, 1, activation="relu6") if expansion > 1 else x
            y = net.conv(net.conv(y, hidden, hidden, 3, step, hidden, "relu6"), hidden, out, 1)
            x = net.add("Add", [y, x]) if step == 1 and channels == out else y
            channels = out
    net.head(net.conv(x, channels, 1280, 1, activation="relu6"), 1280)
    return net.model()


def make_int8(network, directory):
    """The path of the quantized file."""
    import numpy
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    makers = {"resnet18": lambda: resnet((2, 2, 2, 2), False), "resnet50": lambda: resnet((3, 4, 6, 3), True),
              "mobilenet_v2": mobilenet_v2}

    class Images(CalibrationDataReader):
        def __init__(self):
            self.left = [numpy.random.default_rng(2).normal(0, 1, (4, 3, SIDE, SIDE)).astype("float32")]

        def get_next(self):
            return {"images": self.left.pop()} if self.left else None

    real, prepared, codes = (directory / f"{network}_{name}.onnx" for name in ("fp32", "prepared", "int8"))
    onnx.save(makers[network](), real)
    quant_pre_process(str(real), str(prepared), skip_symbolic_shape=True)
    quantize_static(str(prepared), str(codes), Images(), quant_format=QuantFormat.QDQ, per_channel=True, reduce_range=False,
                    weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)
    return codes


def answer_with_runtime(model, batch, threads, seconds):
    """What a process of its own runs: prints one JSON object."""
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    shape = [batch, *session.get_inputs()[0].shape[1:]]
    images = {"images": numpy.random.default_rng(3).normal(0, 1, shape).astype("float32")}
    for _ in range(3):
        session.run(None, images)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        session.run(None, images)
        times.append(time.perf_counter() - start)
    status = pathlib.Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"images_per_second": batch / statistics.median(times), "peak_resident_bytes": peak,
                      "version": onnxruntime.__version__}))


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"deployed.py: exit code {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(options, network, model, batch):
    def octet(answers):
        return run([options.octet, "bench", f"configs/imagenet_{network}_unified_int8.yaml", "--deployed", "--json", "--steps", answers,
                    "--set", f"data.batch={batch}", "--set", f"backend.threads={options.threads}"])

    def runtime():
        return run([sys.executable, __file__, "--answer", model, "--batches", batch, "--threads", options.threads, "--seconds",
                    options.seconds])

    answers = max(3, int(options.seconds * octet(3)["images_per_second"] / batch))
    rounds = [(octet(answers), runtime()) for _ in range(options.rounds)]
    speeds = [[of["images_per_second"] for of in side] for side in zip(*rounds)]
    ratios = [own / other for own, other in zip(*speeds)]
    peaks = [max(of["peak_resident_bytes"] for of in side) / 1e6 for side in zip(*rounds)]
    print(f"{network:13} batch {batch:3}: octet {statistics.median(speeds[0]):7.1f} images/s ({min(speeds[0]):.1f} to "
          f"{max(speeds[0]):.1f}), {peaks[0]:.0f} MB; ONNX Runtime {statistics.median(speeds[1]):7.1f} ({min(speeds[1]):.1f} to "
          f"{max(speeds[1]):.1f}), {peaks[1]:.0f} MB; ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
          f"{max(ratios):.2f})", file=sys.stderr if options.json else sys.stdout, flush=True)
    return {"network": network, "batch": batch, "threads": options.threads, "onnxruntime": rounds[0][1]["version"],
            "isa": rounds[0][0]["isa"], "commit": rounds[0][0]["commit"], "octet": speeds[0], "runtime": speeds[1], "ratios": ratios,
            "octet_peak_mb": peaks[0], "runtime_peak_mb": peaks[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of answers, in each round and program")
    parser.add_argument("--octet", default=str(ROOT / "build/release/octet"))
    parser.add_argument("--models", type=pathlib.Path, help="a folder that keeps the quantized files from run to run")
    parser.add_argument("--json", action="store_true", help="one object on stdout, the table on stderr")
    parser.add_argument("--answer", metavar="MODEL", help="run ONNX Runtime alone (what each round starts)")
    options = parser.parse_args()
    if options.answer:
        return answer_with_runtime(options.answer, options.batches[0], options.threads, options.seconds)
    for network in options.networks:
        if network not in NETWORKS:
            parser.error(f"no network {network}: choose from {', '.join(NETWORKS)}")
    with tempfile.TemporaryDirectory() as folder:
        directory = options.models or pathlib.Path(folder)
        directory.mkdir(exist_ok=True)
        results = []
        for network in options.networks or NETWORKS:
            model = directory / f"{network}_int8.onnx"
            if not model.exists():
                model = make_int8(network, directory)
            results += [compare(options, network, model, batch) for batch in options.batches]
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
