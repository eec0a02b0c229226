#!/usr/bin/env python3
"""launch/slurm.sbatch and octet on two nodes of a Slurm that exists for this test alone: a job that is interrupted is
requeued, resumes, and ends with the weights of a job that nothing disturbed. tests/faults/slurm.py adds cases, and runs all
of them under other parameters of Slurm.

environment: BATCH_SCRIPT  (default: launch/slurm.sbatch of this checkout)
"""

import concurrent.futures
import re
import signal
import unittest

import slurm_cluster
from harness import OCTET, Case, main
from slurm_cluster import FOLDER, wait_until
from slurm_jobs import STEPS, BatchJob, array_of, is_stopped, slurm

REASON = slurm_cluster.missing()


def limited():
    """Slurm's warning before the time limit; Slurm gives it up to a minute earlier than it is told."""
    job = BatchJob("limited", "--time=1", "--signal=B:USR1@45")
    job.stop_at(3)
    job.go_on_with(signal.SIGUSR1)
    return job


def signalled():
    job = BatchJob("signalled")
    job.stop_at(3)
    slurm("scancel", "--batch", "--signal=USR1", job.id)
    job.go_on_with(signal.SIGUSR1)
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
    job.stopped = job.wait_for("two stopped ranks", lambda: (r := job.ranks()) and all(map(is_stopped, r)) and r)
    slurm("scancel", "--batch", "--signal=USR1", job.id)
    job.go_on_with(signal.SIGUSR1)
    return job


def array_with_one_cancelled():
    """The last element: its number is that of the array."""
    array = array_of(2)
    for element in array:
        element.stop_at(3)
    slurm("scancel", array[1].id)
    wait_until(lambda: array[1].field("JobState") == "CANCELLED", lambda: f"the end of {array[1]}")
    array[0].go_on()
    return array


def array_with_one_warned():
    """The last element, when the first has ended and the second is in mid-run."""
    array = array_of(3)
    for element in array[1:]:
        element.stop_at(3)
    array[0].wait_for_end()
    slurm("scancel", "--batch", "--signal=USR1", array[2].id)
    array[2].go_on_with(signal.SIGUSR1)
    array[2].wait_for("a requeue", lambda: array[2].field("Restarts") == "1")
    array[1].go_on()
    return array


@unittest.skipIf(REASON, REASON)
class Slurm(Case):
    BESIDE = limited, signalled, signalled_at_once, signalled_while_loading, array_with_one_cancelled, array_with_one_warned

    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster()
        cls.whole = BatchJob("whole")
        # These mostly wait, so they run beside the other cases. Each returns its job or jobs.
        pool = concurrent.futures.ThreadPoolExecutor()
        cls.beside = {f: pool.submit(f) for f in cls.BESIDE}

    def await_beside(self):
        """Until the jobs beside have ended."""
        concurrent.futures.wait(self.beside.values())
        for beside in self.beside.values():
            if beside.exception() is None:
                jobs = beside.result()
                for job in jobs if isinstance(jobs, list) else [jobs]:
                    job.wait_for_end()

    def expect_whole(self, job, restarts, whole=None):
        """The job has ended well, after so many restarts, and no step was lost."""
        job.wait_for_end()
        self.assertEqual((job.field("JobState"), job.field("Restarts")), ("COMPLETED", str(restarts)), job)
        (whole or self.whole).wait_for_end()
        self.assertEqual(job.weights(), (whole or self.whole).weights(), job)
        self.assertEqual(job.steps(), list(range(1, STEPS + 1)), job)

    def expect_resumed(self, job, whole=None):
        """The same, after one restart, or more where a slow job meets its limit again; each from its own checkpoint."""
        job.wait_for_end()
        warnings = job.log.count("slurm.sbatch: got USR1")
        self.assertGreaterEqual(warnings, 1, job)
        self.expect_whole(job, warnings, whole)
        self.assertEqual(job.codes(), [85] * warnings + [0], job)
        stopped = re.findall(r"stopped by a signal at step (\d+)", job.log)
        self.assertEqual(len(stopped), warnings, job)
        self.assertEqual(re.findall(r"resumed \S+ at step (\d+)", job.log), stopped, job)

    def expect_untouched(self, element, whole):
        self.expect_whole(element, 0, whole)
        self.assertNotIn("slurm.sbatch: got", element.log)
        self.assertEqual(element.codes(), [0], element)

    def expect_preempted(self, name, *partitions):
        """Jobs of these partitions make room for an urgent one, which runs first."""
        # A node has 64 cores. The urgent job has no room beside either of the two, and enough beside the other jobs.
        jobs = [BatchJob(f"{name}_{partition}", f"--partition={partition}", "--cpus-per-task=20") for partition in partitions]
        for job in jobs:
            job.stop_at(3)
        urgent = slurm("sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=46",
                       "--time=1", f"--output={FOLDER}/urgent.out", "--wrap=true")
        # A failed case leaves no job that holds up the next.
        self.addCleanup(slurm, "scancel", "--quiet", urgent, *(job.id for job in jobs))
        for job in jobs:
            job.go_on_with(signal.SIGUSR1, signal.SIGTERM)
        for job in jobs:
            self.expect_whole(job, restarts=1)
            self.assertRegex(job.log, r"resumed \S+ at step [1-9]")
        self.assertIn("JobState=COMPLETED", slurm("scontrol", "show", "job", urgent))
        return jobs

    def lose(self, node, name):
        """Kills the node in mid-run of a job, and brings it back when the job waits for it. No process of the job is left then."""
        self.await_beside()  # a node takes all its jobs with it
        job = BatchJob(name)
        job.stop_at(8)
        self.cluster.kill_node(node)
        self.cluster.boot_node(node)
        job.wait_for("the requeue", lambda: (job.field("JobState"), job.field("Restarts")) == ("PENDING", "1"))
        self.assertEqual(job.processes(), [], job)
        slurm("scontrol", "update", f"nodename={node}", "state=resume")
        self.expect_whole(job, restarts=1)
        self.assertRegex(job.log, r"resumed \S+ at step [1-9]")

    def test_undisturbed(self):
        """nothing: not requeued"""
        self.expect_whole(self.whole, restarts=0)

    def test_time_limit(self):
        """Slurm's warning before the time limit, in mid-run"""
        self.expect_resumed(self.beside[limited].result())

    def test_usr1(self):
        """`scancel --signal=USR1 --batch`, in mid-run"""
        self.expect_resumed(self.beside[signalled].result())

    def test_usr1_at_once(self):
        """`scancel --signal=USR1 --batch` when the script begins"""
        self.expect_whole(self.beside[signalled_at_once].result(), restarts=1)

    def test_usr1_while_loading(self):
        """`scancel --signal=USR1 --batch` while the ranks cannot handle a signal yet: exit code 138 or 143"""
        job = self.beside[signalled_while_loading].result()
        self.expect_whole(job, restarts=1)
        self.assertIn(job.codes()[0], (138, 143), job)

    def test_cancelled(self):
        """`scancel`: cancelled, not requeued, although there is a checkpoint"""
        job = BatchJob("cancelled", train__steps=0, train__epochs=1000)
        job.wait_for("step 3", lambda: job.has_step(3))
        slurm("scancel", job.id)
        job.wait_for_output("slurm.sbatch: octet ended with")
        wait_until(lambda: job.id not in slurm("squeue", "-h", "-o", "%i").split(), lambda: f"the end of {job}")
        self.assertEqual((job.field("JobState"), job.field("Restarts")), ("CANCELLED", "0"), job)

    def test_array_with_one_cancelled(self):
        """`scancel` of an element of an array: the other is not touched"""
        other, cancelled = self.beside[array_with_one_cancelled].result()
        self.assertEqual((cancelled.field("JobState"), cancelled.field("Restarts")), ("CANCELLED", "0"), cancelled)
        self.expect_untouched(other, other)

    def test_array_with_one_warned(self):
        """`scancel --signal=USR1 --batch` to an element of an array: those that train or have ended are not touched"""
        ended, other, warned = self.beside[array_with_one_warned].result()
        self.expect_untouched(other, ended)
        self.expect_resumed(warned, ended)
        self.expect_untouched(ended, ended)

    def test_preempted(self):
        """an urgent job takes its place, GraceTime 0 and 20"""
        self.expect_preempted("preempted", "grace0", "grace20")

    def test_preempted_with_user_signal(self):
        """an urgent job takes its place, GraceTime 0 and 20, `preempt_send_user_signal`"""
        self.cluster.configure("preempt_send_user_signal")
        self.addCleanup(self.cluster.configure)
        with_grace = self.expect_preempted("user_signal", "grace0", "grace20")[1]
        self.assertIn("slurm.sbatch: got USR1", with_grace.log)

    def test_vanished_node(self):
        """the daemons and the rank of the second node are killed, the node comes back"""
        self.lose("n2", "vanished")


if __name__ == "__main__":
    if REASON:
        print(f"skipped: {REASON}")
    else:
        slurm_cluster.enter()
    main()
