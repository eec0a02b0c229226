#!/usr/bin/env python3
"""Compares octet's training step with PyTorch's on this machine: rounds of octet, fp32, bf16 in turn, medians and ratios.

usage: compare.py --octet CONFIG --network NAME [--octet CONFIG --network NAME ...] [--batch N] [--rounds N] [--steps N] [--json FILE]
example: python3 bench/peers/compare.py --octet configs/cifar10_resnet20_unified_int8.yaml --network resnet20 --batch 128

The programs alternate, so that a machine that slows down slows down all of them. octet reads data.name=synthetic, which
costs as little as PyTorch's tensor in memory, or with --data-root the configuration's own data set: then loading and
augmentation count against octet alone. --ranks N shares octet's threads among N ranks. PyTorch gets huge pages for its memory, which helps it.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

from networks import NETWORKS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HUGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0"
MINIMUM_ROUNDS = 5


def run(command, environment):
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"compare.py: exit code {done.returncode}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def octet(options, config, network):
    size, classes = NETWORKS[network][1:]
    settings = [f"data.batch={options.batch}", f"backend.threads={options.threads // options.ranks}"]
    if options.data_root:
        settings += [f"data.root={options.data_root}"]
    else:
        settings += ["data.name=synthetic", f"data.image_size={size}", f"model.classes={classes}"]
    launcher = ["mpirun", "--bind-to", "none", "-n", str(options.ranks)] if options.ranks > 1 else []
    command = [*launcher, options.program, "bench", config, "--steps", str(options.steps), "--json"]
    for setting in settings:
        command += ["--set", setting]
    return run(command, {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp"})


def pytorch(options, network, precision):
    command = [sys.executable, str(HERE / "pytorch_step.py"), network, "--batch", str(options.batch), "--precision", precision,
               "--threads", str(options.threads), "--steps", str(options.steps)]
    return run(command, {"GLIBC_TUNABLES": HUGE_PAGES})


def compare(options, config, network):
    programs = {
        "octet": lambda: octet(options, config, network),
        "pytorch fp32": lambda: pytorch(options, network, "fp32"),
        "pytorch bf16": lambda: pytorch(options, network, "bf16"),
    }
    rounds = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, measure in programs.items():
            rounds[name].append(measure()["step_ms"])
    medians = {name: statistics.median(times) for name, times in rounds.items()}
    ratios = {name: medians[name] / medians["octet"] for name in medians}
    print(f"{network}, batch {options.batch}, {options.threads} threads, octet on {options.ranks} rank(s), "
          f"{'real' if options.data_root else 'synthetic'} data, {options.rounds} rounds")
    print(f"  {'program':14} {'ms/step':>9} {'min':>9} {'max':>9} {'images/s':>9} {'time / octet':>13}")
    for name, times in rounds.items():
        print(f"  {name:14} {medians[name]:9.1f} {min(times):9.1f} {max(times):9.1f} {1000 * options.batch / medians[name]:9.1f} "
              f"{ratios[name]:13.2f}")
    return {"network": network, "config": config, "batch": options.batch, "threads": options.threads,
            "ranks": options.ranks, "step_ms": medians,
            "rounds": rounds, "time_over_octet": ratios}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--octet", action="append", required=True, metavar="CONFIG")
    parser.add_argument("--network", action="append", required=True, choices=sorted(NETWORKS), help="one for each --octet")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=MINIMUM_ROUNDS)
    parser.add_argument("--steps", type=int, default=10, help="timed steps of each program in each round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ranks", type=int, default=1, help="of octet, under mpirun")
    parser.add_argument("--data-root", help="octet reads the configuration's data set from here")
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "octet"))
    parser.add_argument("--json", help="also write the result to this file")
    options = parser.parse_args()
    if len(options.octet) != len(options.network):
        parser.error("as many --network as --octet")
    if options.rounds < MINIMUM_ROUNDS:
        parser.error(f"--rounds: at least {MINIMUM_ROUNDS}, medians of fewer mean little")
    result = {"machine": processor(), "results": [compare(options, *pair) for pair in zip(options.octet, options.network)]}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
