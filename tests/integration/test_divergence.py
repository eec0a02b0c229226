#!/usr/bin/env python3
"""Trainings that diverge: what is written can be loaded, the advice leads out, and the exit code is not 0."""

import json
import math
import random
import re
import struct

from harness import SEED, Case, main


def tensors_of(path):
    """The values of a safetensors file of f32, by name."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    begin = 8 + length
    return {name: struct.unpack(f"<{(end - first) // 4}f", data[begin + first:begin + end])
            for name, (first, end) in ((name, of["data_offsets"]) for name, of in header.items())}


class Divergence(Case):
    def expect_finite_files(self, run, job):
        for path in self.run_path(run).rglob("*.safetensors"):
            for name, values in tensors_of(path).items():
                self.assertTrue(all(map(math.isfinite, values)), f"{path.name}: {name}: {job}")

    def test_no_file_holds_what_octet_would_refuse(self):
        """Random learning rates, policies and checkpoints; half of the runs are killed and resumed."""
        seeded = random.Random(SEED)
        diverged = 0
        for number in range(8):
            run = f"run{number}"
            settings = {"policy__name": seeded.choice(["unified_int8", "fp32"]), "train__momentum": seeded.choice([0, 0.9]),
                        "train__lr": 10 ** seeded.uniform(0, 6), "train__warmup_epochs": 0,
                        "train__on_nonfinite": seeded.choice(["stop", "skip"]),
                        "checkpoint__every_steps": seeded.randint(1, 5), "train__eval_every_epochs": seeded.randint(1, 2)}
            if settings["policy__name"] == "unified_int8":
                settings["policy__activation_range"] = seeded.choice(["held", "batch"])
            with self.subTest(seed=SEED, number=number, **settings):
                job = self.start(run, **settings)
                if seeded.random() < 0.5:
                    try:
                        self.wait_for_step(job, run, seeded.randint(1, 12))
                        job.kill()
                    except AssertionError:  # it has ended by itself before
                        pass
                    job.wait()
                    self.expect_finite_files(run, job)
                    job = self.start(run, resume=True, **settings)
                code = job.wait()
                self.expect_finite_files(run, job)
                self.assertIn(code, (0, 3), job)
                if code == 3:
                    diverged += 1
                    self.assertEqual(job.err.count("octet: error"), 1, job)
                    self.assertIn("lower train.lr", job.err)
                if code == 0:
                    self.assertTrue(math.isfinite(self.result(run)["loss"]), job)
        self.assertGreater(diverged, 0)

    def test_the_advice_leads_out(self):
        """Weights of a run that was never good are not offered; a lower rate trains."""
        for ranks in 1, 2:
            job = self.train(f"stop{ranks}", code=3, ranks=ranks, train__lr=1e6, train__warmup_epochs=0,
                             checkpoint__every_steps=1, train__eval_every_epochs=1)
            self.assertRegex(job.err, "fix: start again with a lower train.lr or more train.warmup_epochs\n")
            self.assertNotIn("initial_weights", job.err)
            status = self.octet("status", self.run_path(f"stop{ranks}"), code=1).out
            self.assertRegex(status, "^.*: diverged, step ")
            self.assertRegex(status, "(?m)--resume leads to the same end; start again with a lower train.lr or more train.warmup_epochs$")
            self.train(f"again{ranks}", ranks=ranks, train__lr=0.01)
        self.train("stop1", code=3, resume=True, train__lr=1e6, train__warmup_epochs=0, checkpoint__every_steps=1,
                   train__eval_every_epochs=1)

    def test_a_run_that_stands_still_ends(self):
        job = self.train("skips", code=3, train__on_nonfinite="skip", train__lr=1e6, train__warmup_epochs=0,
                         data__samples=1024, train__steps=30)
        self.assertRegex(job.err, r"warning: step \d+: loss or gradient is not finite; the step was skipped")
        self.assertIn("loss or gradient was not finite in the last 10 steps, which were skipped", job.err)
        job = self.train("ends", code=3, train__on_nonfinite="skip", train__lr=1e6, train__warmup_epochs=0,
                         data__samples=1024, train__steps=8, checkpoint__best="false")
        self.expect_finite_files("ends", job)


if __name__ == "__main__":
    main()
