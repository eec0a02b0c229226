#!/usr/bin/env python3
"""Threads and cores that ranks take, counted from the masks of their threads, whatever the environment says to OpenMP."""

import os
import pathlib
import re
import resource
import unittest

from harness import MPIRUN, OCTET, Case, main

CORES = os.sched_getaffinity(0)
ONE = str(min(CORES))
BINDS = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores", "OMP_THREAD_LIMIT": "1", "OMP_DYNAMIC": "true"}


def busy_threads(process):
    """Of the threads that have computed most: the cores on which each may run."""
    threads = []
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        ticks = sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))
        threads.append((ticks, os.sched_getaffinity(int(task.name))))
    return [cores for ticks, cores in sorted(threads, key=lambda thread: -thread[0]) if ticks > 2]


@unittest.skipIf(len(CORES) < 2, "there is one core")
class Cores(Case):
    def started(self, run, *launcher, **variables):
        """A training that has begun to compute."""
        words = [f"{name}={value}" for name, value in variables.items()]
        settings = {"backend__threads": 0, "train__steps": 10000, "train__epochs": 10000}
        job = self.launch(["env", *words, *launcher, *self.words(run, **settings)])
        self.wait_for_step(job, run, 40)
        return job

    def expect_spread(self, process, job):
        for cores in busy_threads(process):
            self.assertEqual(cores, CORES, job)

    def test_threads_of_any_environment_use_all_cores(self):
        for run, variables in {"bound": BINDS, "listed": {"GOMP_CPU_AFFINITY": ONE}}.items():
            with self.subTest(variables):
                job = self.started(run, **variables)
                self.assertGreaterEqual(len(busy_threads(job.process.pid)), len(CORES), job)
                self.expect_spread(job.process.pid, job)
                self.assertIn(f": 1 rank of {len(CORES)} threads on ", job.err)
                job.kill()

    def test_ranks_of_any_environment_use_all_cores(self):
        job = self.started("r", MPIRUN, "--bind-to", "none", "--oversubscribe", "-n", "2", **BINDS)
        ranks = job.ranks()
        self.assertEqual(len(ranks), 2, job)
        for process in ranks.values():
            self.expect_spread(process, job)
        self.assertIn(f": 2 ranks of {len(CORES) // 2} thread", job.err)
        job.kill()

    def test_cores_of_the_launcher_are_kept(self):
        job = self.launch(["env", "OMP_PROC_BIND=true", "taskset", "--cpu-list", ONE, *self.words("r", backend__threads=0)])
        self.expect(job, 0)
        self.assertEqual(self.result("r")["threads"], 1)
        self.assertRegex(job.err, r": 1 rank of 1 thread on 1 of \d+ cores")
        self.assertNotIn("fix:", job.err)

    def test_ranks_that_mpirun_binds(self):
        """One core for each of two ranks is their part of two cores; one rank alone leaves the others idle."""
        words = [MPIRUN, "--bind-to", "core"]
        bound = self.launch([*words, "-n", "1", *self.words("one", backend__threads=0)])
        self.expect(bound, 0)
        mpirun = re.search(r"mpirun leaves room for \d+ threads? of a rank on cores \S+, and could for \d+; fix: mpirun --bind-to none",
                           bound.err)
        self.assertTrue(mpirun or "idle" not in bound.err and self.result("one")["threads"] == len(CORES), bound)

    def test_a_warning_of_slurm_s_cores(self):
        variables = ["env", "SLURM_JOB_ID=7", "SLURM_CPUS_PER_TASK=2", "taskset", "--cpu-list", ONE]
        job = self.launch([*variables, *self.words("r", backend__threads=0)])
        self.expect(job, 0)
        self.assertIn(f": there is room for 1 thread of a rank on cores {ONE}, but Slurm has granted it 2", job.err)


class Limits(Case):
    def test_threads_for_which_there_is_no_room(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (700_000 << 10,) * 2)
        job = self.train("r", code=2, limit=limit, backend__threads=256)
        self.assertRegex(job.err, r"error: backend\.threads: only \d+ of 256 threads could be started: .*"
                                  r"\n  fix: choose fewer with backend\.threads, or raise the limit: ")


class TwoCommandsOfOneRank(Case):
    def test_the_second_says_why_it_fails(self):
        version = self.launch([MPIRUN, "--version"])
        self.expect(version, 0)
        if "(Open MPI) 4" not in version.out:
            self.skipTest("MPI starts in a rank as often as needed")
        two = "octet=$0; $octet \"$@\" && $octet eval " + str(self.run_path("r"))
        words = self.words("r", train__steps=1)
        job = self.launch([MPIRUN, "--bind-to", "none", "--oversubscribe", "-n", "2", "bash", "-c", two, OCTET, *words[1:]])
        self.expect(job, 2)
        self.assertIn("rank 0 has run an octet command before", job.err)
        self.assertIn("fix: start each command with an mpirun or srun of its own", job.err)
        self.assertNotIn("MPI_ERRORS_ARE_FATAL", job.err)


if __name__ == "__main__":
    main()
