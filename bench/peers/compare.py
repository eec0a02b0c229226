#!/usr/bin/env python3
"""octet's training step beside PyTorch's on this machine: time, memory, share of the roofline. `octet bench --peer` starts it.

usage: compare.py [NETWORK ...] [--batch N] [--size PIXELS] [--precisions fp32 bf16 qat] [--rounds N] [--steps N] [--threads N]
                  [--ranks N] [--data-root DIR] [--json]
example: venv/bin/python bench/peers/compare.py resnet20 resnet50        (without a network: those of USUAL; detectors need --data-root)

Octet, PyTorch fp32 and PyTorch bf16 run in turn, a process each, so that a machine that slows down slows down all of them;
medians of the rounds count. octet reads data.name=synthetic, two batches of it, which cost as little as PyTorch's tensor in
memory, or with --data-root the configuration's own data set: then loading and augmentation count against octet alone.
PyTorch gets huge pages, which make it faster; its memory is also taken with glibc's defaults, in a run of its own, since
they may need less; the lesser of the two counts.

Peak memory is that of the whole process, libraries and all (Linux's VmHWM). The roofline is the time that a step needs at
least: its operations at the processor's peak, or its bytes at the bandwidth that `octet bench kernels` measures, whichever
is longer (small networks may beat that: caches move bytes faster). An operation is a multiplication or an addition, a byte counts once for each pass that reads or writes it.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0"}
MINIMUM_ROUNDS = 5
USUAL = ["resnet20", "mobilenet_v2_cifar", "resnet18", "resnet50"]  # where none is named
MEMORY_STEPS = 2  # a peak is reached in the first step
GIGA = 1e9

NETWORKS = {  # network: octet's configuration, image size (None: the configuration's), batch, timed steps of a round
    "resnet20": ("configs/cifar10_resnet20_unified_int8.yaml", 32, 128, 20),
    "mobilenet_v2_cifar": ("configs/cifar10_mobilenet_v2_unified_int8.yaml", 32, 128, 5),
    "resnet18": ("configs/imagenet_resnet18_unified_int8.yaml", 224, 16, 5),
    "resnet50": ("configs/imagenet_resnet50_unified_int8.yaml", 224, 16, 3),
    "efficientnet_lite0": ("configs/tiny_imagenet_efficientnet_lite0_unified_int8.yaml", 128, 64, 3),
    "retinanet": ("configs/bccd_retinanet_resnet18_unified_int8.yaml", None, 8, 5),
    "faster_rcnn": ("configs/bccd_faster_rcnn_resnet18_unified_int8.yaml", None, 8, 5),
}


def run(command, added=None):
    """The JSON object that a program prints last. octet sets how long OpenMP's threads spin for itself alone."""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    done = subprocess.run(command, env={**environment, **(added or {})}, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"compare.py: exit code {done.returncode}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def octet(options, network, batch, steps):
    config, size = NETWORKS[network][:2]
    if size is None and not options.data_root:
        sys.exit(f"compare.py: {network} needs objects on images; fix: --data-root, the folder that {config} names")
    settings = [f"data.batch={batch}", f"backend.threads={options.threads // options.ranks}"]
    if options.data_root:
        settings += [f"data.root={options.data_root}"]
    else:
        settings += ["data.name=synthetic", f"data.samples={2 * batch}", f"data.image_size={options.size or size}"]
    if size is None:
        settings += ["model.initial_backbone="]
    launcher = ["mpirun", "--bind-to", "none", "-n", str(options.ranks)] if options.ranks > 1 else []
    command = [*launcher, options.program, "bench", config, "--steps", str(steps), "--json"]
    for setting in settings:
        command += ["--set", setting]
    # Root is who works in a container; nobody else is asked to say that they mean it.
    return run(command, {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})


def pytorch(options, network, precision, batch, steps, environment):
    size = options.size or NETWORKS[network][1]
    return run([sys.executable, str(HERE / "pytorch_step.py"), network, "--batch", str(batch), "--precision", precision,
                "--threads", str(options.threads), "--steps", str(steps), *(["--size", str(size)] if size else [])],
               environment)


def roofline(options, step, bandwidth):
    """The least milliseconds of octet's step here. options: peaks of a core in GOP/s; bandwidth in GB/s."""
    operations = step["operations_per_step"]
    arithmetic = (operations["int8"] / options.int8_peak + operations["real"] / options.fp32_peak) / options.threads
    return 1e3 / GIGA * max(arithmetic, sum(step["bytes_per_step"].values()) / bandwidth)


def compare(options, network, bandwidth):
    config, _, batch, steps = NETWORKS[network]
    batch, steps = options.batch or batch, options.steps or steps
    precisions = {f"pytorch {name}": name for name in options.precisions}
    runs = {name: [] for name in ["octet", *precisions]}
    for number in range(options.rounds):
        runs["octet"].append(octet(options, network, batch, steps))
        for name, precision in precisions.items():
            runs[name].append(pytorch(options, network, precision, batch, steps, HUGE_PAGES))
        print(f"{network}, round {number + 1} of {options.rounds}: " +
              ", ".join(f"{name} {rows[-1]['step_ms']:.1f} ms" for name, rows in runs.items()), file=sys.stderr)
    frugal = {name: pytorch(options, network, precision, batch, MEMORY_STEPS, {}) for name, precision in precisions.items()}

    programs = {}
    for name, rows in runs.items():
        times = [row["step_ms"] for row in rows]
        programs[name] = {
            "step_ms": statistics.median(times), "step_ms_min": min(times), "step_ms_max": max(times), "rounds_ms": times,
            "images_per_second": 1e3 * batch / statistics.median(times),
            "peak_resident_bytes": statistics.median(row["peak_resident_bytes"] for row in rows),
        }
    for name, row in frugal.items():
        programs[name]["peak_resident_bytes_default_malloc"] = row["peak_resident_bytes"]
        programs[name]["resident_bytes_after_import"] = row["resident_bytes_after_import"]
    step = runs["octet"][-1]
    least = roofline(options, step, bandwidth)
    ours = programs["octet"]
    for program in programs.values():
        least_memory = min(program["peak_resident_bytes"], program.get("peak_resident_bytes_default_malloc", float("inf")))
        program["time_over_octet"] = program["step_ms"] / ours["step_ms"]
        program["octet_memory_share"] = ours["peak_resident_bytes"] / least_memory
    return {"network": network, "config": config, "batch": batch, "steps": steps, "rounds": options.rounds,
            "threads": options.threads, "ranks": options.ranks, "data": options.data_root or "synthetic",
            "isa": step["isa"], "peer": f"PyTorch {next(iter(frugal.values()))['version']}", "commit": step["commit"], "operations_per_step": step["operations_per_step"],
            "bytes_per_step": step["bytes_per_step"], "phases_ms": step["phases"],
            "roofline_ms": least, "roofline_share": least / ours["step_ms"], "programs": programs}


def table(result):
    lines = [f"{result['network']}, batch {result['batch']}, {result['threads']} threads, octet on {result['ranks']} rank(s), "
             f"{result['data']} data, {result['rounds']} rounds of {result['steps']} steps",
             f"  {'program':12} {'ms/step':>8} {'min':>8} {'max':>8} {'img/s':>8} {'/ octet':>8} {'peak MB':>8} {'default':>8} "
             f"{'octet /':>8}"]
    for name, row in result["programs"].items():
        default = row.get("peak_resident_bytes_default_malloc")
        lines.append(f"  {name:12} {row['step_ms']:8.1f} {row['step_ms_min']:8.1f} {row['step_ms_max']:8.1f} "
                     f"{row['images_per_second']:8.1f} {row['time_over_octet']:8.2f} {row['peak_resident_bytes'] / 1e6:8.0f} "
                     f"{f'{default / 1e6:8.0f}' if default else '       -'} {row['octet_memory_share']:8.2f}")
    operations, moved = result["operations_per_step"], result["bytes_per_step"]
    lines.append(f"  octet's step: {sum(operations.values()) / GIGA:.1f} GOP ({operations['int8'] / GIGA:.1f} of them on codes), "
                 f"{sum(moved.values()) / GIGA:.2f} GB moved (convolutions {moved['convolutions'] / GIGA:.2f}, passes "
                 f"{moved['passes'] / GIGA:.2f}, update {moved['update'] / GIGA:.2f}); " +
                 (f"at least {result['roofline_ms']:.1f} ms, {100 * result['roofline_share']:.0f} % of the roofline"
                  if result["roofline_share"] <= 1 else
                  f"{result['roofline_ms']:.1f} ms if all of it came from memory: much comes from the cache"))
    return "\n".join(lines)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--batch", type=int, help="default: the table's")
    parser.add_argument("--size", type=int, help="image height and width of a classifier; default: the table's")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16", "qat"],
                        help="of PyTorch; qat: fp32 with fake quantization, as quantization-aware training has it")
    parser.add_argument("--rounds", type=int, default=MINIMUM_ROUNDS)
    parser.add_argument("--steps", type=int, help="timed steps of each program in each round; default: the table's")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ranks", type=int, default=1, help="of octet, under mpirun; they share the threads")
    parser.add_argument("--data-root", type=os.path.abspath, help="octet reads the configuration's data set from here")
    parser.add_argument("--program", type=os.path.abspath, default=str(ROOT / "build" / "release" / "octet"))
    parser.add_argument("--int8-peak", type=float, default=472, help="GOP/s of a core; the default is a Zen 4's with VNNI")
    parser.add_argument("--fp32-peak", type=float, default=118, help="GFLOP/s of a core")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, the table on stderr")
    options = parser.parse_args()
    for network in options.networks:
        if network not in NETWORKS:
            parser.error(f"no network {network}: choose from {', '.join(NETWORKS)}")
        if options.size and NETWORKS[network][1] is None:
            parser.error(f"--size: {network} has the sizes of its configuration")
    if options.rounds < MINIMUM_ROUNDS:
        parser.error(f"--rounds: at least {MINIMUM_ROUNDS}, medians of fewer mean little")
    if options.threads % options.ranks:
        parser.error(f"--ranks: {options.ranks} do not divide {options.threads} threads")
    if importlib.util.find_spec("torch") is None:
        sys.exit(f"compare.py: {sys.executable} has no PyTorch; fix: python3 -m venv venv && "
                 "venv/bin/pip install torch torchvision numpy pillow && . venv/bin/activate")

    triad = run([options.program, "bench", "kernels", "--filter", "memory/triad", "--json"])[0]
    results = []
    for network in options.networks or USUAL:
        results.append(compare(options, network, triad["GB/s"]))
        print(table(results[-1]), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps({"machine": processor(),
                          "ceilings": {"int8": options.int8_peak * options.threads, "fp32": options.fp32_peak * options.threads,
                                       "memory": triad["GB/s"], "threads": options.threads},
                          "results": results}, indent=1))


if __name__ == "__main__":
    main()
