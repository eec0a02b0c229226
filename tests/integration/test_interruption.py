#!/usr/bin/env python3
"""Jobs that are killed, signalled, or lose a rank: they end in bounded time, and a resumed job loses nothing."""

import os
import pathlib
import random
import re
import signal
import time

from harness import OCTET, RECIPE, ROOT, SECONDS, SEED, SMALL, Case, main, with_settings

STEPS = 60
STEPS_PER_EPOCH = 8
OPTIONS = {"train__steps": STEPS, "checkpoint__every_steps": 3}


class Killed(Case):
    def test_resumed_job_loses_nothing(self):
        """The whole job is killed at five random moments, and resumed after each."""
        moments = random.Random(SEED)
        expected = self.weights_of("whole", ranks=2, **OPTIONS)
        for band in range(5):
            job = self.start("killed", ranks=2, resume=band > 0, **OPTIONS)
            self.wait_for_step(job, "killed", 2 + 7 * band + moments.randrange(7))
            time.sleep(moments.uniform(0, 0.05))
            self.assertIsNone(job.process.poll(), f"ended before it was killed: {job}")
            job.kill()
        self.assertEqual(self.weights_of("killed", ranks=2, resume=True, **OPTIONS), expected)

        resumed = [int(step) for job in self.jobs for step in re.findall(r"resumed \S+ at step (\d+)", job.err)]
        self.assertTrue(any(step % STEPS_PER_EPOCH for step in resumed), f"never resumed inside an epoch: {resumed}")
        whole, killed = ([(m["step"], m["kind"], m["loss"], m["top1"]) for m in self.metrics(run)]
                         for run in ("whole", "killed"))
        self.assertEqual([m[0] for m in killed if m[1] == "train"], list(range(1, STEPS + 1)))
        self.assertEqual(killed, whole)

    def test_one_rank_ends_the_job(self):
        job = self.start("killed", ranks=2, train__steps=0, train__epochs=1000)
        self.wait_for_step(job, "killed", 3)
        os.kill(job.ranks()[1], signal.SIGKILL)
        self.expect(job, "failure", seconds=20)


class Signalled(Case):
    def interrupt(self, run, send, ranks):
        """Calls send(job) during training. The job must write a checkpoint, report it once, and continue with --resume."""
        expected = self.weights_of("whole", ranks=ranks, train__steps=STEPS)
        job = self.start(run, ranks=ranks, train__steps=STEPS)
        self.wait_for_step(job, run, 4)
        send(job)
        self.expect(job, 85)
        stopped = re.findall(r"stopped by a signal at step (\d+)", job.err)
        self.assertEqual(len(stopped), 1, job)
        self.assertEqual(self.checkpoints(run)[-1], int(stopped[0]), job)
        self.assertFalse((self.run_path(run) / "result.json").exists())
        after = self.train(run, ranks=ranks, resume=True, train__steps=STEPS)
        self.assertIn(f"at step {stopped[0]} of {STEPS}", after.err)
        self.assertEqual(self.result(run)["weights_sha256"], expected)
        steps = [record["step"] for record in self.metrics(run) if record["kind"] == "train"]
        self.assertEqual(steps, list(range(1, STEPS + 1)))

    def test_usr1_checkpoints(self):
        self.interrupt("usr1", lambda job: job.process.send_signal(signal.SIGUSR1), ranks=1)

    def test_term_checkpoints(self):
        self.interrupt("term", lambda job: job.process.send_signal(signal.SIGTERM), ranks=1)

    def test_a_closed_terminal_checkpoints(self):
        endless = {"train__steps": 0, "train__epochs": 1000}
        job = self.start("closed", **endless)
        self.wait_for_step(job, "closed", 1)
        job.process.send_signal(signal.SIGHUP)
        self.expect(job, 85)
        self.assertTrue(self.checkpoints("closed"), job)
        job = self.start("nohup", limit=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN), **endless)
        self.wait_for_step(job, "nohup", 1)
        job.process.send_signal(signal.SIGHUP)
        self.wait_for_step(job, "nohup", len(self.metrics("nohup")) + 4)
        self.assertIsNone(job.process.poll(), job)

    def test_usr1_during_start_up(self):
        """A signal also stops a job that builds its network, before it has a run directory."""
        settings = {"model__name": "resnet50", "policy__name": "fp32", "data__batch": 2, "train__steps": 3}
        job = self.start("early", **settings)
        status = pathlib.Path(f"/proc/{job.process.pid}/status")
        while not int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16) >> signal.SIGUSR1 - 1 & 1:
            self.assertIsNone(job.process.poll(), job)
        time.sleep(0.1)  # the run directory follows at once where the signal is heeded only from the training on
        self.assertFalse(self.run_path("early").exists(), "the network was built before the signal was heeded")
        job.process.send_signal(signal.SIGUSR1)
        self.expect(job, 85)
        self.assertEqual(self.checkpoints("early"), [1])

    def test_processes_have_the_name_of_the_program(self):
        job = self.start("named", train__steps=0, train__epochs=1000)
        self.wait_for_step(job, "named", 1)
        self.assertEqual(pathlib.Path(f"/proc/{job.process.pid}/comm").read_text(), "octet\n")

    def test_signals_at_any_moment_of_the_start(self):
        """At random moments of the first three seconds; the script of several ranks may not even have started mpirun."""
        moments = random.Random(SEED)
        endless = {**SMALL, "train.steps": 0, "train.epochs": 1000}
        for ranks in 1, 2, 4:
            for attempt in range(4):
                run = f"start-{ranks}-{attempt}"
                words = ["train", RECIPE, "--run", self.run_path(run), *with_settings(endless)]
                job = self.launch([OCTET, *words] if ranks == 1 else
                                  ["env", f"OCTET={OCTET}", ROOT / "launch/mpirun.sh", "-n", str(ranks), *words])
                self.wait_until_ready(job)
                time.sleep(moments.choice([0, moments.uniform(0, 0.3), moments.uniform(0, 3)]))
                job.process.send_signal(moments.choice([signal.SIGUSR1, signal.SIGTERM, signal.SIGINT]))
                self.expect(job, 85)
                if "stopped by a signal" in job.err:  # else mpirun or a rank was not ready for the signal
                    self.assertTrue(self.checkpoints(run), job)

    def wait_until_ready(self, job):
        """Until the first process of a job holds or handles the signals."""
        status = pathlib.Path(f"/proc/{job.process.pid}/status")
        wanted = sum(1 << number - 1 for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT))
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            masks = [int(mask, 16) for mask in re.findall(r"Sig(?:Blk|Cgt):\s*(\w+)", status.read_text())]
            if (masks[0] | masks[1]) & wanted == wanted:
                return
            time.sleep(0.001)
        self.fail(f"never ready for a signal: {job}")

    def test_usr1_to_mpirun_checkpoints(self):
        self.interrupt("mpirun", lambda job: job.process.send_signal(signal.SIGUSR1), ranks=2)

    def test_signal_to_one_rank_stops_all(self):
        self.interrupt("rank1", lambda job: os.kill(job.ranks()[1], signal.SIGUSR1), ranks=2)

    def test_signal_during_the_test(self):
        """A stopped job does not run the test of its epoch; the resumed job begins with it."""
        settings = {"ranks": 2, "train__steps": 2, "data__samples": 20480}  # two short steps, then 5120 images, for seconds
        job = self.start("tested", **settings)
        self.wait_for_step(job, "tested", 1)
        rank = job.ranks()[1]
        self.wait_for_step(job, "tested", 2)
        os.kill(rank, signal.SIGUSR1)
        self.expect(job, 85)
        self.assertEqual(self.checkpoints("tested"), [2])
        self.assertNotIn("test", [record["kind"] for record in self.metrics("tested")], job)
        self.train("tested", resume=True, **settings)
        self.train("whole", **settings)
        tested, whole = ([(m["step"], m["kind"], m["loss"]) for m in self.metrics(run)] for run in ("tested", "whole"))
        self.assertEqual(tested, whole)
        self.assertEqual(self.result("tested")["loss"], self.result("whole")["loss"])

    def test_nobody_reads_what_it_says(self):
        """`| tee log` ends at the Ctrl-C that asks for a checkpoint."""
        for run, program in ("alone", [OCTET]), ("script", ["env", f"OCTET={OCTET}", ROOT / "launch/mpirun.sh", "-n", "2"]):
            words = [*program, "train", RECIPE, "--run", self.run_path(run), *with_settings({**SMALL, "train.log_every_steps": 1})]
            job = self.launch(["bash", "-c", '"$@" 2>&1 | true; exit ${PIPESTATUS[0]}', "bash", *words])
            self.expect(job, 0)
            self.assertEqual(self.result(run)["steps"], SMALL["train.steps"])

    def test_term_to_launch_script_checkpoints(self):
        endless = {**SMALL, "train.steps": 0, "train.epochs": 1000, "data.samples": 5120}  # no epoch ends meanwhile
        job = self.launch(["env", f"OCTET={OCTET}", ROOT / "launch/mpirun.sh", "train", RECIPE, "--run",
                           self.run_path("script"), *with_settings(endless)])
        self.wait_for_step(job, "script", 3)
        job.process.send_signal(signal.SIGTERM)
        self.expect(job, 85)
        self.assertIn("the ranks write a checkpoint", job.err)
        stopped = re.findall(r"stopped by a signal at step (\d+)", job.err)
        self.assertEqual([int(step) for step in stopped], self.checkpoints("script"), job)


if __name__ == "__main__":
    main()
