"""Trainings that tests give to the Slurm of slurm_cluster.py, and what is done to them.

environment: BATCH_SCRIPT  (default: launch/slurm.sbatch of this checkout)
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from harness import OCTET, RECIPE, ROOT, SMALL, environment, with_settings
from slurm_cluster import FOLDER, wait_until

SCRIPT = os.environ.get("BATCH_SCRIPT", str(ROOT / "launch/slurm.sbatch"))
STEPS = 120  # enough that a training is in mid-run when it is found at step 3
SETTINGS = {**SMALL, "train.steps": STEPS, "train.epochs": STEPS // 8, "checkpoint.every_steps": 3}
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"}


def slurm(*command, env=None, folder=ROOT):
    """What the command prints, in the folder."""
    ended = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(ended.args)}: {ended.stderr}")
    return ended.stdout.strip()


def status(process):
    """What the kernel tells about it; '' if it has ended."""
    try:
        return pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return ""


def is_stopped(process):
    return "State:\tT" in status(process)


def send(number, process):
    with contextlib.suppress(ProcessLookupError):  # it has ended; where it should not have, the next wait says so
        os.kill(process, number)


def submit(options, octet=OCTET, settings=None, variables=None, folder=ROOT):
    """The job's number."""
    words = ["sbatch", "--parsable", "--cpus-per-task=1", "--time=20", *options, SCRIPT, RECIPE]
    return slurm(*words, *with_settings({**SETTINGS, **(settings or {})}), folder=folder,
                 env={**environment(), "OCTET": str(octet), **(variables or {})})


class BatchJob:
    """A training that was given to sbatch. The run directory and the output have its name."""

    rank_count = 2

    def __init__(self, name, *options, octet=OCTET, **settings):
        self.log_file, self.run = FOLDER / f"{name}.out", FOLDER / "runs" / name
        self.id = submit([f"--output={self.log_file}", *options], octet, variables={"RUN": str(self.run)},
                         settings={key.replace("__", "."): value for key, value in settings.items()})

    @property
    def log(self):
        return self.log_file.read_text() if self.log_file.exists() else ""

    def __str__(self):
        return f"{slurm('scontrol', 'show', 'job', self.id)}\n{self.log[-5000:]}"

    def field(self, name):
        return re.search(rf"\b{name}=(\S+)", slurm("scontrol", "show", "job", self.id))[1]

    def wait_for(self, what, condition):
        """The first value of condition() that counts as true. AssertionError: the job has ended."""
        asked = time.monotonic()

        def value():
            nonlocal asked
            found = condition()
            if not found and time.monotonic() > asked + 1:
                if self.field("JobState") in ENDED and not (found := condition()):
                    raise AssertionError(f"ended before {what}: {self}")
                asked = time.monotonic()
            return found
        return wait_until(value, lambda: f"{what} of {self}")

    def wait_for_output(self, text):
        self.wait_for(f"`{text}`", lambda: text in self.log)

    def wait_for_end(self):
        wait_until(lambda: self.field("JobState") in ENDED, lambda: f"the end of {self}", pause=0.3)

    def ranks(self):
        """The processes of all ranks; none while there are others."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has just ended
                words = path.read_bytes().split(b"\0")
                if str(self.run).encode() in words and b"--mpi=pmix" not in words:  # srun has the same words
                    found.append(int(path.parent.name))
        return found if len(found) == self.rank_count else []

    def processes(self):
        """All that Slurm has started for the job, on any node."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"SLURM_JOB_ID={self.id}".encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def codes(self):
        """With which octet has ended."""
        return [int(code) for code in re.findall(r"slurm.sbatch: octet ended with (\d+)", self.log)]

    def weights(self):
        return json.loads((self.run / "result.json").read_text())["weights_sha256"]

    def steps(self):
        """Those of its metrics."""
        records = map(json.loads, (self.run / "metrics.jsonl").read_text().splitlines())
        return [record["step"] for record in records if record["kind"] == "train"]

    def has_step(self, step):
        metrics = self.run / "metrics.jsonl"
        return metrics.exists() and f'{{"step":{step},' in metrics.read_text()

    def stop_at(self, step):
        """Stops all ranks in mid-run, at this step or a little later, so that what comes then does not depend on speed."""
        self.wait_for(f"step {step}", lambda: self.has_step(step))
        self.stopped = self.wait_for("all ranks", self.ranks)
        for rank in self.stopped:
            send(signal.SIGSTOP, rank)
        self.wait_for("stopped ranks", lambda: all(map(is_stopped, self.stopped)))

    def go_on(self):
        for rank in self.stopped:
            send(signal.SIGCONT, rank)

    def go_on_with(self, *signals):
        """Lets the ranks go on as soon as one of these signals waits for each. Slurm may also let them go on."""
        def waits(rank):
            pending = re.findall(r"(?:Sig|Shd)Pnd:\s*(\w+)", status(rank))
            return not is_stopped(rank) or any(int(mask, 16) >> number - 1 & 1 for mask in pending for number in signals)
        self.wait_for(f"{signals} to ranks", lambda: all(map(waits, self.stopped)))
        self.go_on()


class Element(BatchJob):
    """Of an array of trainings, each on one node."""

    rank_count = 1

    def __init__(self, array, index):
        self.id, self.log_file = f"{array}_{index}", FOLDER / f"{array}_{index}.out"

    @functools.cached_property
    def run(self):
        self.wait_for_output("slurm.sbatch: job")
        return FOLDER / "runs" / re.search(r"slurm.sbatch: job (\d+)", self.log)[1]


def array_of(count):
    array = submit([f"--array=0-{count - 1}", "--nodes=1", f"--output={FOLDER}/%A_%a.out"], folder=FOLDER)
    return [Element(array, index) for index in range(count)]
