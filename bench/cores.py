#!/usr/bin/env python3
"""Counts what octet makes of the cores that it may use, from the processor time and the masks of its threads.

usage: sudo bench/cores.py [--seconds N] [--place PART] [--json FILE]

Each place is a launcher and a limit: taskset, or a control group. In each place octet trains with every number of threads
that the recipe can set, and then with the number that it chooses itself, where the environment says nothing to OpenMP and
where it tells it to bind threads. A row passes if octet then gets 95 % of the processor time of the best number.
Needs root for control groups and Slurm; what the machine lacks is left out, and said.
environment: OCTET (default: build/release/octet of this checkout)
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/integration"))
import slurm_cluster  # noqa: E402
from harness import MPIRUN, OCTET, RECIPE, descendants, environment, with_settings  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
CORES = sorted(os.sched_getaffinity(0))
ONE = str(CORES[0])
QUIET = 0.1  # processor time of others, in cores, that does not disturb
ENVIRONMENTS = [{}, {"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "cores"}, {"GOMP_CPU_AFFINITY": ONE}]
RANKS = [MPIRUN, "--oversubscribe", "-n"]
LAUNCHERS = {
    "1 rank": [],
    "2 ranks, mpirun --bind-to none": [*RANKS, "2", "--bind-to", "none"],
    "1 rank, mpirun binds": [*RANKS, "1", "--bind-to", "core"],
    "2 ranks, mpirun binds": [*RANKS, "2", "--bind-to", "core"],
    "1 rank, srun, task/affinity": ["srun", "--mpi=pmix", "-n", "1", "-c", str(len(CORES))],
    "2 ranks, srun, task/affinity": ["srun", "--mpi=pmix", "-N", "1", "-n", "2", "-c", str(len(CORES) // 2)],
}
LIMITS = ["", "taskset", "1", "1.5"]  # a number: cores' worth of time of a control group
PLACES = [(launcher, limit) for launcher in list(LAUNCHERS)[:2] for limit in LIMITS] + \
         [(launcher, "") for launcher in list(LAUNCHERS)[2:]]


@contextlib.contextmanager
def control_group(cpus):
    """The file to which a process writes its number to enter a group of that much processor time."""
    parents = [(pathlib.Path("/sys/fs/cgroup"), "cpu.max"), (pathlib.Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us")]
    for parent, limit in parents:
        if not (parent / "cgroup.procs").exists():
            continue
        group = pathlib.Path(tempfile.mkdtemp(prefix="octet-cores-", dir=parent))
        try:
            if (group / limit).exists():
                quota = str(round(100000 * float(cpus)))
                (group / limit).write_text(f"{quota} 100000" if limit == "cpu.max" else quota)
                yield group / "cgroup.procs"
                return
        finally:
            deadline = time.monotonic() + 10
            while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
            group.rmdir()
    raise OSError("no control group of processor time can be made here")


def octets():
    """The processes of octet that have grown from this one, or under Slurm, those of this machine."""
    found = []
    for process in descendants(os.getpid() if INSIDE is None else 1):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{process}/exe", OCTET):
                found.append(process)
    return found


def times(processes):
    """Thread -> seconds of processor time, and the cores on which it may run."""
    seconds, cores = {}, {}
    for process in processes:
        for task in pathlib.Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                ticks = sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))
                seconds[task.name], cores[task.name] = ticks / TICKS, os.sched_getaffinity(int(task.name))
    return seconds, cores


def busy_seconds():
    """Of all processors, with what the host of a virtual machine takes away."""
    user, nice, system, _, _, *others = map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(others)) / TICKS


def steps(run):
    with contextlib.suppress(OSError, IndexError, ValueError):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [line["step"] for line in lines if line["kind"] == "train"][-1]
    return 0


def measure(launcher, limit, variables, threads, seconds):
    """A training that has begun to compute, watched for so many seconds."""
    with tempfile.TemporaryDirectory(prefix="octet-cores-") as folder, contextlib.ExitStack() as stack:
        run = pathlib.Path(folder) / "run"
        settings = {"train.epochs": 10**6, "train.eval_every_epochs": 10**6, "train.log_every_steps": 2, "data.workers": 1,
                    "data.samples": 4096, "backend.threads": threads}
        words = [*LAUNCHERS[launcher], "env", *(f"{name}={value}" for name, value in variables.items()), OCTET, "train", RECIPE,
                 "--run", str(run), *with_settings(settings)]
        enter = None
        if limit == "taskset":
            words = ["taskset", "--cpu-list", ONE, *words]
        elif limit:
            group = stack.enter_context(control_group(limit))
            enter = lambda: group.write_text(str(os.getpid()))  # noqa: E731
        with open(f"{folder}/log", "wb") as log:
            job = subprocess.Popen(words, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=enter)
        try:
            deadline = time.monotonic() + 60
            while steps(run) < 20:
                if job.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{' '.join(words)}\n{pathlib.Path(folder, 'log').read_text()[-3000:]}")
                time.sleep(0.05)
            processes = octets()
            begin, done, (before, _), all_before = time.monotonic(), steps(run), times(processes), busy_seconds()
            time.sleep(seconds)
            (after, cores), all_after = times(processes), busy_seconds()
            passed, trained = time.monotonic() - begin, steps(run) - done
        finally:
            for process in octets():
                with contextlib.suppress(OSError):
                    os.kill(process, 9)
            job.kill() if not LAUNCHERS[launcher] else None
            job.wait()
        used = {thread: after[thread] - before.get(thread, 0) for thread in after}
        busy = [thread for thread in used if used[thread] > 0.1 * passed]
        return {"place": launcher, "limit": limit, "environment": variables, "set": threads, "ranks": len(processes),
                "busy_threads": len(busy), "cores": len(set().union(*(cores[thread] for thread in busy))),
                "cpu_seconds_per_second": sum(used.values()) / passed, "steps_per_second": trained / passed,
                "of_others": (all_after - all_before - sum(used.values())) / passed}


def wait_for_quiet(seconds=30):
    deadline, busy = time.monotonic() + seconds, QUIET
    while busy >= QUIET and time.monotonic() < deadline:
        before = busy_seconds()
        time.sleep(1)
        busy = busy_seconds() - before


def measure_alone(*arguments):
    """The first of a few measurements beside which nothing else computed; if there is none, the least disturbed."""
    least = None
    for _ in range(8):
        wait_for_quiet()
        row = measure(*arguments)
        if least is None or row["of_others"] < least["of_others"]:
            least = row
        if least["of_others"] < QUIET:
            break
    return least


def report(place, options, results):
    best, passed = 0.0, True
    candidates = [({}, threads) for threads in range(1, len(CORES) + 1)] + [(chosen, 0) for chosen in ENVIRONMENTS]
    for variables, threads in candidates:
        row = measure_alone(*place, variables, threads, options.seconds)
        results.append(row)
        used = row["cpu_seconds_per_second"]
        best = max(best, used if threads else 0)
        name = " ".join(f"{key}={value}" for key, value in variables.items()) or (f"backend.threads={threads}" if threads else "")
        share = used / best
        disturbed = row["of_others"] >= QUIET
        passed &= threads > 0 or disturbed or share >= 0.95
        verdict = "" if threads else "disturbed" if disturbed else f"{100 * share:.0f} %"
        print(f"| {place[0]} | {place[1]} | {name} | {row['busy_threads']} | {row['cores']} | {used:.2f} | "
              f"{row['of_others']:.2f} | {row['steps_per_second']:.1f} | {verdict} |", flush=True)
    return passed


INSIDE = os.environ.get(slurm_cluster.INSIDE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="for which a training is watched")
    parser.add_argument("--place", default="", help="a part of the name of the launchers to measure")
    parser.add_argument("--json", help="writes all rows to this file")
    options = parser.parse_args()
    absent = slurm_cluster.missing() if INSIDE is None else ""
    if absent:
        print(f"cores.py: without Slurm: {absent}", file=sys.stderr)
    elif INSIDE is None:
        slurm_cluster.enter()
    elif "srun".startswith(options.place) or "srun" in options.place:
        slurm_cluster.Cluster(task="task/affinity", cores=len(CORES))
    results, passed = [], True
    print("| launcher | limit | setting | busy threads | cores | processor time | of others | steps/s | of the best |")
    print("|---|---|---|---|---|---|---|---|---|")
    for place in PLACES:
        if options.place not in place[0] or (absent and "srun" in place[0]):
            continue
        try:
            passed &= report(place, options, results)
        except OSError as error:
            print(f"cores.py: without {place}: {error}", file=sys.stderr)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    print("pass" if passed else "FAIL: a setting of octet's own gets less than 95 % of the best")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
