#!/usr/bin/env python3
"""launch/slurm.sbatch and octet on two nodes of a Slurm that exists for this test alone: a job that is interrupted is
requeued, resumes, and ends with the weights of a job that nothing disturbed.

environment: BATCH_SCRIPT  (default: launch/slurm.sbatch of this checkout)
"""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import slurm_cluster
from harness import OCTET, RECIPE, ROOT, SMALL, Case, environment, main, with_settings
from slurm_cluster import FOLDER, wait_until

SCRIPT = os.environ.get("BATCH_SCRIPT", str(ROOT / "launch/slurm.sbatch"))
STEPS = 60
SETTINGS = {**SMALL, "train.steps": STEPS, "checkpoint.every_steps": 3}
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
REASON = slurm_cluster.missing()


def slurm(*command, env=None):
    """What the command prints, in the checkout's folder."""
    ended = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(ended.args)}: {ended.stderr}")
    return ended.stdout.strip()


def status(process):
    """What the kernel tells about it; '' if it has ended."""
    try:
        return pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return ""


def signals_under_way():
    """Whether a scancel runs."""
    return any(status(path.name).startswith("Name:\tscancel\n") for path in pathlib.Path("/proc").glob("[0-9]*"))


def send(number, process):
    with contextlib.suppress(ProcessLookupError):  # it has ended; where it should not have, the next wait says so
        os.kill(process, number)


class BatchJob:
    """A training that was given to sbatch. The run directory and the output have its name."""

    def __init__(self, name, *options, octet=OCTET, **settings):
        self.log_file, self.run = FOLDER / f"{name}.out", FOLDER / "runs" / name
        chosen = {**SETTINGS, **{key.replace("__", "."): value for key, value in settings.items()}}
        variables = {**environment(), "OCTET": str(octet), "RUN": str(self.run)}
        self.id = slurm("sbatch", "--parsable", f"--output={self.log_file}", "--cpus-per-task=1", "--time=20", *options,
                        SCRIPT, RECIPE, *with_settings(chosen), env=variables)

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
        """The processes of the two ranks; none while there are others."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
                if str(self.run).encode() in words and b"--mpi=pmix" not in words:  # srun has the same words
                    found.append(int(path.parent.name))
            except OSError:
                continue  # it has just ended
        return found if len(found) == 2 else []

    def has_step(self, step):
        metrics = self.run / "metrics.jsonl"
        return metrics.exists() and f'{{"step":{step},' in metrics.read_text()

    def stop_at(self, step):
        """Stops both ranks in mid-run, at this step or a little later, so that what comes then does not depend on speed."""
        self.wait_for(f"step {step}", lambda: self.has_step(step))
        for rank in self.ranks():
            send(signal.SIGSTOP, rank)

    def go_on_with_usr1(self):
        """Lets both ranks go on as soon as SIGUSR1 waits for them."""
        def waits(rank):
            pending = re.findall(r"(?:Sig|Shd)Pnd:\s*(\w+)", status(rank))
            return any(int(mask, 16) >> signal.SIGUSR1 - 1 & 1 for mask in pending)
        ranks = self.wait_for("two ranks with SIGUSR1", lambda: (r := self.ranks()) and all(map(waits, r)) and r)
        for rank in ranks:
            send(signal.SIGCONT, rank)


def limited():
    """Slurm's warning before the time limit; Slurm gives it up to a minute earlier than it is told."""
    job = BatchJob("limited", "--time=1", "--signal=B:USR1@45")
    job.stop_at(3)
    job.go_on_with_usr1()
    return job


def signalled():
    job = BatchJob("signalled")
    job.stop_at(3)
    slurm("scancel", "--batch", "--signal=USR1", job.id)
    job.go_on_with_usr1()
    return job


def signalled_at_once():
    job = BatchJob("signalled_at_once")
    job.wait_for_output("slurm.sbatch: job")
    slurm("scancel", "--batch", "--signal=USR1", job.id)
    return job


def signalled_while_loading():
    """A shell that stops itself stands for a program that is being loaded and cannot handle a signal yet."""
    program = FOLDER / "loading"
    program.write_text(f'#!/bin/sh\n[ "${{SLURM_RESTART_COUNT:-0}}" != 0 ] || kill -STOP $$\nexec "{OCTET}" "$@"\n')
    program.chmod(0o755)
    job = BatchJob("signalled_while_loading", octet=program)
    job.wait_for("two stopped ranks", lambda: (r := job.ranks()) and all("State:\tT" in status(rank) for rank in r))
    slurm("scancel", "--batch", "--signal=USR1", job.id)
    job.go_on_with_usr1()
    return job


@unittest.skipIf(REASON, REASON)
class Slurm(Case):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster()
        cls.whole = BatchJob("whole")
        # These mostly wait, so they run beside the other cases. Each returns its job.
        pool = concurrent.futures.ThreadPoolExecutor()
        cls.beside = {f: pool.submit(f) for f in (limited, signalled, signalled_at_once, signalled_while_loading)}

    def run_path(self, run):
        return FOLDER / "runs" / run

    def expect_whole(self, job, restarts):
        """The job has ended well, after so many restarts, and no step was lost."""
        job.wait_for_end()
        self.assertEqual((job.field("JobState"), job.field("Restarts")), ("COMPLETED", str(restarts)), job)
        self.whole.wait_for_end()
        self.assertEqual(self.result(job.run.name)["weights_sha256"], self.result("whole")["weights_sha256"], job)
        steps = [record["step"] for record in self.metrics(job.run.name) if record["kind"] == "train"]
        self.assertEqual(steps, list(range(1, STEPS + 1)), job)

    def expect_resumed(self, job):
        """The same, after one restart, or more where a slow job meets its limit again; each from its own checkpoint."""
        job.wait_for_end()
        warnings = job.log.count("slurm.sbatch: got USR1")
        self.assertGreaterEqual(warnings, 1, job)
        self.expect_whole(job, restarts=warnings)
        self.assertEqual(re.findall(r"slurm.sbatch: octet ended with (\d+)", job.log), ["85"] * warnings + ["0"], job)
        stopped = re.findall(r"stopped by a signal at step (\d+)", job.log)
        self.assertEqual(len(stopped), warnings, job)
        self.assertEqual(re.findall(r"resumed \S+ at step (\d+)", job.log), stopped, job)

    def test_undisturbed(self):
        self.expect_whole(self.whole, restarts=0)

    def test_time_limit(self):
        self.expect_resumed(self.beside[limited].result())

    def test_usr1(self):
        self.expect_resumed(self.beside[signalled].result())

    def test_usr1_at_once(self):
        self.expect_whole(self.beside[signalled_at_once].result(), restarts=1)

    def test_usr1_while_loading(self):
        job = self.beside[signalled_while_loading].result()
        self.expect_whole(job, restarts=1)
        self.assertRegex(job.log, "slurm.sbatch: octet ended with (138|143)")

    def test_cancelled(self):
        job = BatchJob("cancelled", train__steps=0, train__epochs=1000)
        job.wait_for("step 3", lambda: job.has_step(3))
        slurm("scancel", job.id)
        job.wait_for_output("slurm.sbatch: octet ended with")
        wait_until(lambda: job.id not in slurm("squeue", "-h", "-o", "%i").split(), lambda: f"the end of {job}")
        self.assertEqual((job.field("JobState"), job.field("Restarts")), ("CANCELLED", "0"), job)

    def test_preempted(self):
        job = BatchJob("preempted", "--partition=preemptable", "--cpus-per-task=10")
        job.stop_at(3)
        # A node has 16 cores: no room for both, and enough for the jobs beside.
        urgent = slurm("sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=8",
                       "--time=1", f"--output={FOLDER}/urgent.out", "--wrap=true")
        self.addCleanup(slurm, "scancel", "--quiet", job.id, urgent)  # a failed case leaves no job that holds up the next
        job.go_on_with_usr1()
        self.expect_resumed(job)
        self.assertIn("JobState=COMPLETED", slurm("scontrol", "show", "job", urgent))

    def test_vanished_node(self):
        concurrent.futures.wait(self.beside.values())
        for beside in self.beside.values():
            if beside.exception() is None:
                beside.result().wait_for_end()  # a node that is down takes all its jobs with it
        job = BatchJob("vanished")
        job.stop_at(8)
        slurm("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        job.wait_for("the requeue", lambda: job.field("Restarts") == "1")
        # The job cannot start again yet. A signal that is still on its way then would end it.
        wait_until(lambda: not signals_under_way(), lambda: f"the end of the signals to {job}", seconds=10)
        slurm("scontrol", "update", "nodename=n2", "state=resume")
        self.expect_whole(job, restarts=1)
        self.assertRegex(job.log, r"resumed \S+ at step [1-9]")


if __name__ == "__main__":
    if REASON:
        print(f"skipped: {REASON}")
    else:
        slurm_cluster.enter()
    main()
