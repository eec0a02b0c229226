#!/usr/bin/env python3
"""launch/slurm.sbatch and octet on two nodes of a Slurm that exists for this test alone: a job that is interrupted is requeued,
resumes, and ends with the weights of a job that nothing disturbed.

environment: SBATCH  another batch script (default: launch/slurm.sbatch)
"""

import os
import pathlib
import re
import signal
import subprocess
import threading
import unittest

import slurm_cluster
from harness import OCTET, RECIPE, ROOT, SMALL, Case, environment, main, with_settings
from slurm_cluster import FOLDER, wait_until

SCRIPT = os.environ.get("SBATCH", str(ROOT / "launch/slurm.sbatch"))
STEPS = 40
SETTINGS = {**SMALL, "train.steps": STEPS, "checkpoint.every_steps": 3}
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
REASON = slurm_cluster.missing()


def slurm(*command):
    """What the command prints."""
    ended = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(ended.args)}: {ended.stderr}")
    return ended.stdout.strip()


class BatchJob:
    """A training that was given to sbatch. The run directory and the output have its name."""

    def __init__(self, name, *options, octet=OCTET, **settings):
        self.log_file, self.run = FOLDER / f"{name}.out", FOLDER / "runs" / name
        chosen = {**SETTINGS, **{key.replace("__", "."): value for key, value in settings.items()}}
        command = ["sbatch", "--parsable", f"--output={self.log_file}", "--cpus-per-task=1", "--time=20", *options, SCRIPT, RECIPE,
                   *with_settings(chosen)]
        env = {**environment(), "OCTET": str(octet), "RUN": str(self.run)}
        self.id = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout.strip()

    @property
    def log(self):
        return self.log_file.read_text() if self.log_file.exists() else ""

    def __str__(self):
        return f"{slurm('scontrol', 'show', 'job', self.id)}\n{self.log[-5000:]}"

    def field(self, name):
        return re.search(rf"\b{name}=(\S+)", slurm("scontrol", "show", "job", self.id))[1]

    def wait_for(self, what, condition):
        """The first value of condition() that counts as true. A job that has ended comes to nothing any more."""
        def value():
            ended = self.field("JobState") in ENDED  # asked first: the condition may have come true at the end
            found = condition()
            if ended and not found:
                raise AssertionError(f"ended before {what}: {self}")
            return found
        return wait_until(value, lambda: f"{what} of {self}")

    def wait_for_output(self, text):
        self.wait_for(f"`{text}`", lambda: text in self.log)

    def wait_for_end(self):
        self.wait_for("the end", lambda: self.field("JobState") in ENDED)

    def ranks(self):
        """The processes of the two ranks; none while there are others."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
                if words[0] != b"srun" and str(self.run).encode() in words and b"--mpi=pmix" not in words:
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
            os.kill(rank, signal.SIGSTOP)

    def go_on_with_usr1(self):
        """Lets both ranks go on as soon as SIGUSR1 waits for them."""
        def waits(rank):
            status = pathlib.Path(f"/proc/{rank}/status").read_text()
            return any(int(mask, 16) >> signal.SIGUSR1 - 1 & 1 for mask in re.findall(r"(?:Sig|Shd)Pnd:\s*(\w+)", status))
        ranks = self.wait_for("two ranks with SIGUSR1", lambda: (r := self.ranks()) and all(map(waits, r)) and r)
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)


@unittest.skipIf(REASON, REASON)
class Slurm(Case):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster()
        cls.whole = BatchJob("whole")
        # Slurm's warning comes within a minute, while the other cases run. No other job may take the place of this one.
        cls.limited = BatchJob("limited", "--time=1", "--signal=B:USR1@45", "--partition=steady")
        cls.limited.stop_at(3)
        threading.Thread(target=cls.limited.go_on_with_usr1, daemon=True).start()

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
        """The same, after one checkpoint and one restart."""
        self.expect_whole(job, restarts=1)
        self.assertEqual(job.log.count("slurm.sbatch: got USR1"), 1, job)
        self.assertEqual(re.findall(r"slurm.sbatch: octet ended with (\d+)", job.log), ["85", "0"], job)
        stopped = re.findall(r"stopped by a signal at step (\d+)", job.log)
        self.assertEqual(re.findall(r"resumed \S+ at step (\d+)", job.log), stopped, job)
        self.assertEqual(len(stopped), 1, job)

    def test_undisturbed(self):
        self.expect_whole(self.whole, restarts=0)

    def test_usr1(self):
        job = BatchJob("usr1")
        job.stop_at(3)
        slurm("scancel", "--batch", "--signal=USR1", job.id)
        job.go_on_with_usr1()
        self.expect_resumed(job)

    def test_usr1_before_the_ranks(self):
        job = BatchJob("at_once")
        job.wait_for_output("slurm.sbatch: job")
        slurm("scancel", "--batch", "--signal=USR1", job.id)
        self.expect_whole(job, restarts=1)

    def test_usr1_before_a_rank_can_handle_it(self):
        """A shell that stops itself stands for the program that is being loaded."""
        program = FOLDER / "starting"
        program.write_text(f'#!/bin/sh\n[ "${{SLURM_RESTART_COUNT:-0}}" != 0 ] || kill -STOP $$\nexec "{OCTET}" "$@"\n')
        program.chmod(0o755)
        job = BatchJob("starting", octet=program)
        job.wait_for("two ranks", job.ranks)
        slurm("scancel", "--batch", "--signal=USR1", job.id)
        job.go_on_with_usr1()
        self.expect_whole(job, restarts=1)
        self.assertIn("slurm.sbatch: octet ended with 138", job.log)

    def test_time_limit(self):
        self.expect_resumed(self.limited)

    def test_cancelled(self):
        job = BatchJob("cancelled", train__steps=0, train__epochs=1000)
        job.wait_for("step 3", lambda: job.has_step(3))
        slurm("scancel", job.id)
        job.wait_for_output("slurm.sbatch: octet ended with")
        wait_until(lambda: job.id not in slurm("squeue", "-h", "-o", "%i").split(), lambda: f"the end of {job}")
        self.assertEqual((job.field("JobState"), job.field("Restarts")), ("CANCELLED", "0"), job)

    def test_preempted(self):
        job = BatchJob("preempted", "--cpus-per-task=5")  # of 8 on each node, so there is no room for both
        job.stop_at(3)
        urgent = slurm("sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4",
                       "--time=1", f"--output={FOLDER}/urgent.out", "--wrap=true")
        job.go_on_with_usr1()
        self.expect_resumed(job)
        self.assertIn("JobState=COMPLETED", slurm("scontrol", "show", "job", urgent))

    def test_vanished_node(self):
        self.limited.wait_for_end()  # a node takes all its jobs with it
        job = BatchJob("vanished")
        job.stop_at(8)
        slurm("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        job.wait_for("the requeue", lambda: job.field("Restarts") == "1")
        slurm("scontrol", "update", "nodename=n2", "state=resume")
        self.expect_whole(job, restarts=1)
        self.assertRegex(job.log, r"resumed \S+ at step [1-9]")


if __name__ == "__main__":
    if REASON:
        print(f"skipped: {REASON}")
    else:
        slurm_cluster.enter()
    main()
