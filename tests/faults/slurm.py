#!/usr/bin/env python3
"""Runs the cases of tests/integration/test_slurm.py and more under several of Slurm's TaskPlugins and ProctrackTypes, and writes
the last section of docs/results/hosts-and-slurm.md. It takes ten to twenty minutes.
usage: tests/faults/slurm.py [--check]      (--check: writes nothing)

environment: OCTET         the program (default: build/release/octet of this checkout)
             BATCH_SCRIPT  (default: launch/slurm.sbatch of this checkout)
"""

import datetime
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))

import slurm_cluster
from slurm_jobs import BatchJob, slurm
from test_slurm import REASON, Slurm

PAGE, DATA = ROOT / "docs/results/hosts-and-slurm.md", ROOT / "docs/results/data/slurm.json"
HEADING = "## Slurm's parameters"
PARAMETERS = list(itertools.product(["task/none", "task/affinity"], ["proctrack/linuxproc", "proctrack/pgid"]))
ABOUT = """Two nodes, which are namespaces of one machine. ResNet-20 on `shapes`, 60 steps of 32 images, a checkpoint every 3
steps, a rank on each node; an element of an array has one rank. "Yes": a job that was not cancelled was requeued, resumed,
and ended as COMPLETED, with the `weights_sha256` of a job that nothing disturbed and each step once in its metrics; a cancelled
one was not requeued. A lost node: SIGKILL to slurmd, slurmstepd and all that they have started there. Other parameters have
Slurm's default, but for some waits, which are shorter."""
NOT_RUN = """Not run: proctrack/cgroup and task/cgroup, other versions of Slurm, a real cluster, other MPI
libraries, a shared file system such as NFS."""
RESULT = "results: "  # begins the last line of one run


def ended_by_limit():
    """No signal but Slurm's TERM at the limit. The first signal is one that nobody minds."""
    job = BatchJob("ended_by_limit", "--time=1", "--signal=URG@1")
    job.stop_at(3)
    return job


class Everything(Slurm):
    BESIDE = *Slurm.BESIDE, ended_by_limit

    def test_time_limit_without_warning(self):
        """the time limit, of which nobody warns"""
        job = self.beside[ended_by_limit].result()
        job.wait_for("a requeue", lambda: job.field("Restarts") == "1")
        self.expect_whole(job, restarts=1)
        self.assertEqual(job.codes(), [85, 0], job)

    def test_preempted_and_cancelled_by_slurm(self):
        """an urgent job takes its place, PreemptMode=CANCEL"""
        self.assertEqual(self.expect_preempted("cancelled_by_slurm", "ended")[0].codes(), [85, 0])

    def test_vanished_batch_node(self):
        """the daemons, the rank and the script of the first node are killed, the node comes back"""
        self.lose("n1", "vanished_first")

    def test_killed_daemons(self):
        """the daemons and the rank of the second node are killed, slurmd starts at once; exit code 83 or 84"""
        self.await_beside()
        job = BatchJob("killed_daemons", comm__timeout_seconds=10)
        job.stop_at(8)
        self.cluster.kill_node("n2")
        self.cluster.start_node("n2")
        job.go_on()
        self.expect_whole(job, restarts=1)
        self.assertIn(job.codes()[0], (83, 84), job)
        self.assertRegex(job.log, r"resumed \S+ at step [1-9]")

    def test_node_lost_again(self):
        """the same node is lost three times"""
        self.await_beside()
        job = BatchJob("lost_again")
        for restart in range(3):
            job.stop_at(8 + 10 * restart)
            self.cluster.kill_node("n2")
            self.cluster.boot_node("n2")
            job.wait_for("the requeue", lambda: (job.field("JobState"), job.field("Restarts")) == ("PENDING", str(restart + 1)))
            slurm("scontrol", "update", "nodename=n2", "state=resume")
        self.expect_whole(job, restarts=3)


class Kept(unittest.TextTestResult):
    """Whether each case held, and in how many seconds."""
    rows = {}

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        failed = any(test is other for other, _ in self.failures + self.errors)
        self.rows[test._testMethodName] = {"case": test._testMethodDoc, "held": not failed,
                                           "seconds": round(time.monotonic() - self.started, 1)}
        word = "  FAILED  " if failed else "       OK "
        print(f"[{word}] Slurm.{test._testMethodName} ({1e3 * (time.monotonic() - self.started):.0f} ms)", flush=True)


def run_inside():
    """All cases in one cluster; their results are the last line."""
    slurm_cluster.enter()
    cases = unittest.defaultTestLoader.loadTestsFromTestCase(Everything)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0, resultclass=Kept).run(cases)
    print(RESULT + json.dumps(Kept.rows), flush=True)
    sys.exit(0 if result.wasSuccessful() else 1)


def run(task, proctrack):
    print(f"== {task}, {proctrack}", flush=True)
    variables = {**os.environ, "TASK_PLUGIN": task, "PROCTRACK_TYPE": proctrack}
    process = subprocess.Popen([sys.executable, __file__, "inside"], env=variables, stdout=subprocess.PIPE, text=True)
    rows = {}
    for line in process.stdout:
        if line.startswith(RESULT):
            rows = json.loads(line[len(RESULT):])
        else:
            print(line, end="", flush=True)
    process.wait()
    return rows


def said(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def write_page(results, seconds):
    processor = re.search(r"Model name: *(.*)", said("lscpu"))[1]
    script = said("git", "log", "-1", "--format=%h", "--", "launch/slurm.sbatch").strip()
    version = said("slurmctld", "-V").split()[1]
    columns = list(results)
    cases = {name: row["case"] for rows in results.values() for name, row in rows.items()}
    held = {name: [results[column].get(name, {}).get("held", False) for column in columns] for name in cases}
    failed = sum(row.count(False) for row in held.values())
    lines = [f"{datetime.date.today()}, {processor}, {os.cpu_count()} cores, Slurm {version}, `launch/slurm.sbatch` of {script}.",
             f"Command: `tests/faults/slurm.py` ({seconds / 60:.0f} minutes). JSON: [data/slurm.json](data/slurm.json). {ABOUT}"]
    lines = textwrap.wrap(" ".join(lines), 118, break_long_words=False, break_on_hyphens=False)
    lines += ["", f"| what is done to the job | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for name, case in cases.items():
        lines.append(f"| {case} | {' | '.join('yes' if yes else '**no**' for yes in held[name])} |")
    lines += ["", f"Not held: {failed or 'none'}. {NOT_RUN}"]
    DATA.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(f"{PAGE.read_text().partition(HEADING)[0]}{HEADING}\n\n" + "\n".join(lines) + "\n")


def main():
    if REASON:
        print(f"skipped: {REASON}")
        return
    if sys.argv[1:] == ["inside"]:
        run_inside()
    started = time.monotonic()
    results = {f"{task}, {proctrack}": run(task, proctrack) for task, proctrack in PARAMETERS}
    if sys.argv[1:] != ["--check"]:
        write_page(results, time.monotonic() - started)
    sys.exit(0 if all(rows and all(row["held"] for row in rows.values()) for rows in results.values()) else 1)


if __name__ == "__main__":
    main()
