#!/usr/bin/env python3
"""octet study, inspect and pack, as a user runs them."""

import fcntl
import json
import os
import re
import shutil
import signal
import time

from harness import OCTET, RECIPE, SECONDS, Case, descendants, main

STUDY = f"""title: tiny
base: {RECIPE}
set: {{data.samples: 128, data.batch: 32, train.epochs: 2, backend.threads: 1, data.workers: 1, train.log_every_steps: 1}}
grid:
  policy:
    fp32: {{policy.name: fp32}}
    int8: {{policy.name: unified_int8, policy.clip.record_histograms: true}}
    lost: {{model.initial_weights: nowhere.safetensors}}
baseline: {{policy: fp32}}
paper: {{fp32: 92.32}}
"""


class Studies(Case):
    def test_runs_skips_and_tables(self):
        study, out = self.directory / "tiny.yaml", self.directory / "out"
        study.write_text(STUDY)
        self.assertEqual(self.octet("study", study, "--list").out.count("to do"), 3)
        self.assertEqual(self.octet("study", study, "--list", "--only", "int8|lost").out.count("to do"), 2)
        self.assertIn("none of 3 runs", self.octet("study", study, "--only", "fp16", code=2).err)
        self.assertIn("regular expression", self.octet("study", study, "--only", "(", code=2).err)
        job = self.octet("study", study, "--directory", out, code=1)
        self.assertEqual(job.out.count("started"), 3, job)
        self.assertIn("nowhere.safetensors", job.out)  # it fails alone
        table = (out / "table.md").read_text()
        self.assertIn("| fp32 | 1/1 |", table)
        self.assertIn("| lost | 0/1 | failed |", table)
        html = (out / "study.html").read_text()
        for word in "<h1>tiny</h1>", "<td>92.32</td>", "Top-1 accuracy, by policy", "<svg", "nowhere.safetensors":
            self.assertTrue(word in html, word)
        rows = json.loads((out / "results.json").read_text())["rows"]
        self.assertAlmostEqual(rows[1]["drop"], rows[0]["mean"] - rows[1]["mean"])
        again = self.octet("study", study, "--directory", out, code=1)
        self.assertEqual((again.out.count("finished"), again.out.count("started")), (2, 0), again)
        self.assertRegex(again.out, "failed    lost-seed1: octet: error.*nowhere.safetensors.*; --again tries again")
        # Another grid in the same place does not mix with its results.
        for before, after in ("train.epochs: 2", "train.epochs: 3"), ("set: {", "set: {train.steps: 2, "):
            study.write_text(STUDY.replace(before, after))
            changed = self.octet("study", study, "--directory", out, "--only", "fp32|int8", code=1)
            self.assertEqual(changed.out.count("changed"), 2, changed)
            self.assertIn(after.split("{")[-1].strip(", "), changed.out)
            table = (out / "table.md").read_text()
            self.assertIn("| policy | runs | the paper |", table)  # columns of dashes alone are left out
            self.assertIn("| fp32 | 0/1 | 92.32 |", table)
            self.assertIn("Left out", table)
        study.write_text(STUDY)
        (out / "fp32-seed1" / "config.yaml").write_text("no_key: 1\n")
        self.assertIn("it cannot be compared", self.octet("study", study, "--directory", out, code=1).out)

        page = self.octet("inspect", out / "int8-seed1").out.strip()
        html = open(page, encoding="utf-8").read()
        for word in "<svg", "Cosine distance", "layer1.0.conv1", "log2 |g|", "Top-1 accuracy", "Which distribution?", \
                "resnet20 on shapes, policy unified_int8, seed 1.", "Confusion matrix", "The most confident mistakes", \
                "<img class=\"small\"":
            self.assertTrue(word in html, word)  # not assertIn, which would print the page
        self.assertNotIn("http://", html.replace("http://www.w3.org/2000/svg", ""))
        self.assertNotIn("nan", re.sub('src="data:[^"]*"', "", html).split("<details>")[0])

    def test_leaves_alone_what_runs_elsewhere(self):
        study, out = self.directory / "tiny.yaml", self.directory / "shared"
        study.write_text(STUDY.replace("train.epochs: 2", "train.steps: 1"))
        (out / "int8-seed1").mkdir(parents=True)
        with open(out / "int8-seed1" / "lock", "w", encoding="utf-8") as lock:
            lock.write("process 1 on elsewhere")
            lock.flush()
            fcntl.lockf(lock, fcntl.LOCK_EX)
            self.assertIn("runs      int8-seed1", self.octet("study", study, "--directory", out, "--list").out)
            job = self.octet("study", study, "--directory", out, "--only", "fp32|int8")
            self.assertEqual(job.out.count("started"), 1, job)
            self.assertIn("| int8 | 0/1 |", (out / "table.md").read_text())
        job = self.octet("study", study, "--directory", out, "--only", "fp32|int8")
        self.assertEqual((job.out.count("finished"), job.out.count("started")), (1, 1), job)

    def test_ends_with_its_training(self):
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                self.check_end_with_training(ranks)

    def check_end_with_training(self, ranks):
        study, out = self.directory / "tiny.yaml", self.directory / f"ended{ranks}"
        study.write_text(STUDY.replace("train.epochs: 2", "train.epochs: 200") + f"ranks: {ranks}\n")
        metrics = out / "int8-seed1" / "metrics.jsonl"

        def begun(lines):
            job = self.launch([OCTET, "study", study, "--directory", out, "--only", "int8"])
            deadline = time.monotonic() + SECONDS
            while not metrics.exists() or metrics.read_text().count("\n") < lines:
                self.assertIsNone(job.process.poll(), job)
                self.assertLess(time.monotonic(), deadline, job)
                time.sleep(0.01)
            job.processes()
            return job

        job = begun(2)
        if ranks > 1:
            os.killpg(job.process.pid, signal.SIGINT)  # Ctrl-C
        else:
            os.kill(job.process.pid, signal.SIGTERM)
        self.assertEqual(job.wait(), 85, job)
        self.assertIn("started   int8-seed1 ... stopped", job.out)
        self.assertTrue(any((out / "int8-seed1" / "checkpoints").iterdir()))
        self.assertFalse((out / "int8-seed1" / "failed.txt").exists())

        job = begun(metrics.read_text().count("\n") + 2)
        self.assertIn("resumed   int8-seed1", job.out)
        os.kill(job.process.pid, signal.SIGKILL)
        self.assertEqual(job.wait(), -signal.SIGKILL, job)  # and the training with it
        self.assertEqual((out / "int8-seed1" / "train.log").read_text().count("stopped by a signal"), 2)

    def test_goes_on(self):
        """Another study began a run after this one looked, the reader of the output is gone, and octet is rebuilt meanwhile."""
        study, out, octet = self.directory / "tiny.yaml", self.directory / "on", self.directory / "octet"
        study.write_text(STUDY.replace("train.epochs: 2", "train.steps: 1"))
        self.octet("study", study, "--directory", out, "--only", "fp32")
        (out / "fp32-seed1" / "config.yaml").rename(self.directory / "config.yaml")
        (out / "fp32-seed1" / "result.json").unlink()
        shutil.copy(OCTET, octet)
        newer = shutil.copy(OCTET, self.directory / "newer")
        job = self.launch(["bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "bash", octet, "study", study, "--directory", out,
                           "--only", "fp32|int8"])
        while not (out / "fp32-seed1" / "result.json").exists():
            self.assertIsNone(job.process.poll(), job)
            time.sleep(0.001)
        newer.replace(octet)
        self.expect(job, 0)
        self.assertIn("| int8 | 1/1 |", (out / "table.md").read_text())

    def test_trainings_are_no_ranks_of_the_study(self):
        """As `srun -N 2 octet study` starts it on each node."""
        study, out = self.directory / "tiny.yaml", self.directory / "tasks"
        study.write_text(STUDY.replace("train.epochs: 2", "train.steps: 1"))
        job = self.launch(["env", "SLURM_STEP_NUM_TASKS=2", "PMI_SIZE=2", "PMI_RANK=1", OCTET, "study", study, "--directory", out,
                           "--only", "fp32"])
        self.expect(job, 0)
        self.assertEqual(json.loads((out / "fp32-seed1" / "result.json").read_text())["ranks"], 1)

    def test_stops_between_two_trainings(self):
        study, out = self.directory / "tiny.yaml", self.directory / "between"
        study.write_text(STUDY.replace("train.epochs: 2", "train.steps: 1"))
        out.mkdir()
        with open(out / "lock", "w", encoding="utf-8") as lock:  # the study waits for it where it writes its table
            fcntl.lockf(lock, fcntl.LOCK_EX)
            job = self.launch([OCTET, "study", study, "--directory", out, "--only", "fp32|int8"])
            deadline = time.monotonic() + SECONDS
            while not (out / "fp32-seed1" / "result.json").exists() or descendants(job.process.pid):
                self.assertIsNone(job.process.poll(), job)
                self.assertLess(time.monotonic(), deadline, job)
                time.sleep(0.01)
            os.kill(job.process.pid, signal.SIGTERM)
        self.assertEqual(job.wait(), 85, job)
        self.assertEqual(job.out.count("started"), 1, job)
        self.assertIn("stopped; the same command continues", job.out)
        self.assertIn("| fp32 | 1/1 |", (out / "table.md").read_text())

    def test_says_why_a_run_failed_this_time(self):
        study, out, weights = self.directory / "w.yaml", self.directory / "why", self.directory / "w.safetensors"
        study.write_text(STUDY)
        one = ["study", study, "--directory", out, "--only", "fp32", "--set", f"model.initial_weights={weights}"]
        self.assertIn("cannot be read", self.octet(*one, code=1).out)
        weights.write_bytes(b"\1" * 100)
        again = self.octet(*one, "--again", code=1).out
        self.assertIn("octet: error", again)
        self.assertNotIn("cannot be read", again)

    def test_refuses_what_it_would_misread(self):
        study = self.directory / "w.yaml"
        for text, word in (STUDY + "set: {train.lr: 0.7}\n", "`set` was given before"), (STUDY + "seeds: []\n", "empty"):
            study.write_text(text)
            self.assertIn(word, self.octet("study", study, "--list", code=2).err)
        study.write_text(STUDY)
        self.assertIn("one seed", self.octet("study", study, "--list", "--set", "seed=9", code=2).err)
        study.write_text(STUDY.replace("model.initial_weights: nowhere.safetensors", "model.name: resnet21"))
        self.assertIn("resnet21", self.octet("study", study, "--list", code=2).err)

    def test_inspect_shows_a_run_that_diverged(self):
        job = self.train("diverged", code=3, policy__name="fp32", train__on_nonfinite="skip", train__lr=1e3, train__steps=4,
                         train__warmup_epochs=0)
        self.assertIn("the test loss is not finite", job.err)
        self.assertFalse((self.run_path("diverged") / "result.json").exists())
        job = self.train("diverged", code=3, resume=True, policy__name="fp32", train__on_nonfinite="skip", train__lr=1e3,
                         train__steps=4, train__warmup_epochs=0)
        page = self.octet("inspect", self.run_path("diverged")).out.strip()
        self.assertIn(">Loss</text>", open(page, encoding="utf-8").read())

    def test_inspect_needs_a_run(self):
        self.assertIn("metrics.jsonl", self.octet("inspect", self.directory, code=2).err)


if __name__ == "__main__":
    main()
