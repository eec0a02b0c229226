#!/usr/bin/env python3
"""octet's integers beside PyTorch's quantization: accuracy and speed in ONNX Runtime, and what the training takes.

usage: quantized.py --data DIR --work DIR [--networks NETWORK ...] [--epochs N] [--qat-epochs N] [--times N] [--json FILE]
example: venv/bin/python bench/peers/quantized.py --data data/cifar-10-batches-bin --work runs/quantized --json quantized.json

ResNet-20 and MobileNetV2 on CIFAR-10, with the recipe of configs/cifar10_*_unified_int8.yaml (MobileNetV2 with a rate of 0.05):
  fp32      trained in PyTorch in fp32
  ptq       that network, quantized by PyTorch (FX graph mode, 1024 training images, a scale per channel)
  ort_ptq   the fp32 file, quantized by ONNX Runtime's quantize_static with the same images
  qat       trained in PyTorch with fake quantization: as many epochs as fp32, or with --qat-epochs N on from fp32's weights, with a
            tenth of the rate and no warm-up
  octet     trained by octet, exported by `octet export --for onnxruntime`
All weights are those of the last step. Accuracy is that of 10,000 test images: before the export, in PyTorch or by `octet
eval`, and in ONNX Runtime. The seconds of a training are the sum of its steps, from pixels to new weights. --times N
measures N steps of each program in turn, which needs a quiet machine: the seconds are then the median step times the
number of steps. ptq and ort_ptq include fp32's seconds, as does qat with --qat-epochs.

--work keeps each result; a second call goes on after the last epoch of the first. Delete DIR/NETWORK/WAY.* to do a way
again. The processor should have VNNI: without it, ONNX Runtime's sums of 8-bit codes may saturate.

Needs: pip install numpy onnx onnxruntime onnxscript torch
"""

import argparse
import copy
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import deployed

ROOT = pathlib.Path(__file__).resolve().parents[2]
HUGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0"  # which make PyTorch faster
TRAINING_FILES, TEST_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]
CALIBRATION, TRIAL = 1024, 500  # images
ROUNDS = 5
NETWORKS = {  # name: in networks.py, learning rate
    "resnet20": ("resnet20", 0.1),
    "mobilenet_v2": ("mobilenet_v2_cifar", 0.05),
}
WAYS = {"fp32": "PyTorch fp32", "ptq": "PyTorch, quantized after training", "ort_ptq": "PyTorch fp32, quantized by ONNX Runtime",
        "qat": "PyTorch, trained with fake quantization", "octet": "octet"}


def fail(message):
    sys.exit(f"quantized.py: {message}")


def run(command):
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    if done.returncode != 0:
        fail(f"exit code {done.returncode} of {' '.join(map(str, command))}; fix: what it says above")
    return done.stdout


class Comparison:
    """The ways of one network, in a folder of its own."""

    def __init__(self, network, options, train, test):
        self.network, self.options, self.train, self.test = network, options, train, test
        self.name, lr = NETWORKS[network]
        self.folder = options.work / network
        self.folder.mkdir(exist_ok=True)
        self.recipe = {"data.batch": 128, "train.lr": options.lr or lr, "train.momentum": 0.9, "train.decay": 1e-4,
                       "train.warmup_epochs": 1}
        self.results = {}

    def file(self, way):
        return self.folder / f"{way}.onnx"

    def result(self, way):
        """What the way gives, from its file of an earlier call if there is one."""
        kept = self.folder / f"{way}.json"
        if not kept.exists():
            result = getattr(self, way)()
            result |= self.judged(way)
            partial = kept.with_suffix(".partial")
            partial.write_text(json.dumps(result, indent=1) + "\n")
            partial.rename(kept)
        self.results[way] = json.loads(kept.read_text())

    def judged(self, way):
        """What ONNX Runtime makes of the file."""
        from exported import operations
        from quantized_networks import accuracy_in_runtime
        counts = operations(str(self.file(way)))  # by kind, whatever their domain
        return {"accuracy_onnxruntime": accuracy_in_runtime(self.file(way), self.test, self.options.threads),
                "file_bytes": self.file(way).stat().st_size,
                "convolutions": sum(count for kind, count in counts.items() if "Conv" in kind),
                "integer_convolutions": counts["QLinearConv"] + counts["ConvInteger"], "operations": counts}

    def trained(self, way, network, epochs, fine_tuning=False):
        from quantized_networks import Training
        training = Training(network, self.recipe, self.train, epochs, self.options.seed, fine_tuning)
        steps, seconds = training.run(self.folder / f"{way}.pt", self.options.steps, f"{self.network} {way}")
        return {"steps": steps, "seconds": seconds}

    def fp32_network(self):
        """As the training left it."""
        import torch
        from quantized_networks import make_network
        network = make_network(self.name, self.options.seed)
        network.load_state_dict(torch.load(self.folder / "fp32.pt", weights_only=True)["network"])
        return network.eval()

    def made(self, way, network):
        """Its accuracy, before it is exported to the way's file."""
        from quantized_networks import accuracy, export
        export(copy.deepcopy(network), self.file(way))
        return {"accuracy_before": accuracy(network, self.test)}

    def fp32(self):
        from quantized_networks import make_network
        result = self.trained("fp32", make_network(self.name, self.options.seed), self.options.epochs)
        return result | self.made("fp32", self.fp32_network())

    def ptq(self):
        from quantized_networks import normalized, quantized_after_training
        start = time.perf_counter()
        network = quantized_after_training(self.fp32_network(), normalized(self.train.pixels[:CALIBRATION]))
        return {"steps": 0, "seconds": time.perf_counter() - start, "follows": "fp32"} | self.made("ptq", network)

    def ort_ptq(self):
        from quantized_networks import quantized_by_runtime
        start = time.perf_counter()
        quantized_by_runtime(self.file("fp32"), self.file("ort_ptq"), self.train.pixels[:CALIBRATION])
        return {"steps": 0, "seconds": time.perf_counter() - start, "follows": "fp32", "accuracy_before": None}

    def qat_network(self):
        from quantized_networks import make_network, normalized, prepared
        fine_tuning = self.options.qat_epochs is not None
        network = self.fp32_network() if fine_tuning else make_network(self.name, self.options.seed)
        return prepared(network, normalized(self.train.pixels[:2]), while_training=True)

    def qat(self):
        from quantized_networks import converted
        fine_tuning, network = self.options.qat_epochs is not None, self.qat_network()
        result = self.trained("qat", network, self.options.qat_epochs or self.options.epochs, fine_tuning)
        return result | ({"follows": "fp32"} if fine_tuning else {}) | self.made("qat", converted(network))

    def octet_command(self, command, *words):
        keys = self.recipe | {"seed": self.options.seed, "data.root": self.options.data.resolve(), "train.schedule": "cosine",
                              "train.epochs": self.options.epochs, "train.steps": self.options.steps,
                              "backend.threads": self.options.threads}
        settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        return [self.options.octet, command, ROOT / f"configs/cifar10_{self.network}_unified_int8.yaml", *settings, *words]

    def octet(self):
        directory = (self.folder / "octet.run").resolve()
        if not (directory / "result.json").exists():
            resume = ["--resume"] if directory.exists() else []
            print(run(self.octet_command("train", "--run", directory, *resume)), end="", file=sys.stderr)
        weights = ["--weights", directory / "weights.safetensors"]
        before = json.loads(run([self.options.octet, "eval", directory, *weights, "--json"]))
        run([self.options.octet, "export", directory, *weights, "--for", "onnxruntime", "--unchecked", "--output",
             self.file("octet").resolve()])
        records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
        epochs = {record["epoch"]: record["seconds"] for record in records if record["kind"] == "epoch"}
        return {"steps": json.loads((directory / "result.json").read_text())["steps"], "seconds": sum(epochs.values()),
                "accuracy_before": 100 * before["top1"]}

    def measure_steps(self):
        """Seconds of a step of each training, the median of ROUNDS in which they take turns; kept in a file."""
        from quantized_networks import Training, make_network
        kept = self.folder / "times.json"
        if self.options.times:
            count = max(1, self.options.times // ROUNDS)
            networks = {"fp32": make_network(self.name, self.options.seed), "qat": self.qat_network()}
            endless = {way: Training(network, self.recipe, self.train, self.options.epochs, self.options.seed).steps(0)
                       for way, network in networks.items()}
            taken = {"fp32": [], "qat": [], "octet": []}
            for _ in range(ROUNDS):
                for way, steps in endless.items():
                    next(steps)  # the caches are another program's
                    taken[way].append(statistics.median(next(steps)[1] for _ in range(count)))
                octet = run(self.octet_command("bench", "--steps", count, "--json"))
                taken["octet"].append(json.loads(octet.splitlines()[-1])["step_ms"] / 1000)
            kept.write_text(json.dumps(taken) + "\n")
        if not kept.exists():
            return
        for way, seconds in json.loads(kept.read_text()).items():
            self.results[way] |= {"step_seconds": seconds}

    def training_seconds(self, way):
        result = self.results[way]
        own = result["steps"] * statistics.median(result["step_seconds"]) if "step_seconds" in result else result["seconds"]
        return own + (self.training_seconds(result["follows"]) if "follows" in result else 0)

    def measure_answers(self):
        """Images per second in ONNX Runtime, a process each, in turn."""
        for batch in self.options.batches:
            speeds = {way: [] for way in WAYS}
            for _ in range(ROUNDS):
                for way in WAYS:
                    answer = run([sys.executable, deployed.__file__, "--answer", self.file(way).resolve(), "--batches", batch,
                                  "--threads", self.options.threads, "--seconds", self.options.seconds])
                    speeds[way].append(json.loads(answer)["images_per_second"])
            for way in WAYS:
                self.results[way].setdefault("images_per_second", {})[str(batch)] = speeds[way]

    def table(self):
        batches = self.options.batches
        lines = [f"| {self.network} | accuracy before the export | in ONNX Runtime | training, s | "
                 + " | ".join(f"images/s, batch {batch}" for batch in batches) + " | integer convolutions | file, MB |",
                 "|---" * (6 + len(batches)) + "|"]
        for way, title in WAYS.items():
            of = self.results[way]
            before = "" if of["accuracy_before"] is None else f"{of['accuracy_before']:.2f} %"
            speeds = " | ".join(f"{statistics.median(of['images_per_second'][str(batch)]):.0f}" for batch in batches)
            lines.append(f"| {title} | {before} | {of['accuracy_onnxruntime']:.2f} % | {of['training_seconds']:.0f} | {speeds} | "
                         f"{of['integer_convolutions']} of {of['convolutions']} | {of['file_bytes'] / 1e6:.2f} |")
        return "\n".join(lines)


def check(options):
    """Refuses what would fail hours later."""
    for name in [*TRAINING_FILES, *TEST_FILES]:
        if not (options.data / name).is_file():
            fail(f"{options.data / name}: no such file; fix: --data, the folder of CIFAR-10's binary version")
    if not os.access(options.octet, os.X_OK):
        fail(f"{options.octet}: no such program; fix: build octet, or --octet PROGRAM")
    options.work.mkdir(parents=True, exist_ok=True)
    settings = {name: getattr(options, name) for name in ("epochs", "qat_epochs", "steps", "seed", "lr")}
    kept = options.work / "settings.json"
    if kept.exists() and json.loads(kept.read_text()) != settings:
        fail(f"{kept} says {json.loads(kept.read_text())}, and not {settings}; fix: the same options, or another --work")
    kept.write_text(json.dumps(settings) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    positive = lambda text: int(text) if int(text) > 0 else parser.error(f"{text} is not above 0")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data/cifar-10-batches-bin", help="CIFAR-10's .bin files")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="the folder that keeps networks, files and results")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--epochs", type=positive, default=30)
    parser.add_argument("--qat-epochs", type=positive, help="train with fake quantization for N epochs, from fp32's weights")
    parser.add_argument("--steps", type=positive, default=0, 
                        help=f"to try the script: end each training after N steps, and judge by {TRIAL} test images")
    parser.add_argument("--lr", type=float, help="default: " + ", ".join(f"{name} {lr}" for name, (_, lr) in NETWORKS.items()))
    parser.add_argument("--seed", type=positive, default=1)
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--times", type=positive, help="measure N training steps of each program in turn")
    parser.add_argument("--batches", nargs="+", type=positive, default=[1, 16], help="of ONNX Runtime's answers")
    parser.add_argument("--seconds", type=float, default=1, help="of answers, in each round and file")
    parser.add_argument("--octet", type=pathlib.Path, default=ROOT / "build/release/octet")
    parser.add_argument("--json", type=pathlib.Path, help="a file for all results")
    options = parser.parse_args()
    check(options)
    options.octet = options.octet.resolve()
    if os.environ.get("GLIBC_TUNABLES") != HUGE_PAGES:  # is read at the start of a process
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "GLIBC_TUNABLES": HUGE_PAGES})

    import onnxruntime
    import torch
    from quantized_networks import Cifar10
    torch.set_num_threads(options.threads)
    train, test = Cifar10(options.data, TRAINING_FILES), Cifar10(options.data, TEST_FILES, TRIAL if options.steps else None)
    results = {}
    for network in options.networks:
        comparison = Comparison(network, options, train, test)
        for way in WAYS:
            comparison.result(way)
        comparison.measure_steps()
        comparison.measure_answers()
        for way in WAYS:
            comparison.results[way]["training_seconds"] = comparison.training_seconds(way)
        print(comparison.table(), end="\n\n", flush=True)
        results[network] = comparison.results
    if options.json:
        options.json.write_text(json.dumps({
            "versions": {"torch": torch.__version__, "onnxruntime": onnxruntime.__version__}, "threads": options.threads,
            "epochs": options.epochs, "qat_epochs": options.qat_epochs, "steps": options.steps, "seed": options.seed,
            "networks": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
