#!/usr/bin/env python3
"""train.memory_mb: what is chosen fits into the memory, as the operating system counts it, and a run keeps it."""

import os
import re
import subprocess

from harness import OCTET, ROOT, SMALL, Case, main, with_settings

RECIPE = ROOT / "configs/shapes_resnet20_unified_int8.yaml"
LARGE = {**SMALL, "data.batch": 64, "data.samples": 640, "train.steps": 6}
# What is chosen differs by 6 MB or more, which is beyond the differences between two starts.
WIDE = {"data.name": "synthetic", "data.image_size": 64}


class Memory(Case):
    def peak_of(self, name, **settings):
        """Trains, and returns the log and the peak of memory in megabytes."""
        words = with_settings({**LARGE, **{key.replace("__", "."): value for key, value in settings.items()}})
        log = self.directory / f"{name}.log"
        with open(log, "w") as out:
            process = subprocess.Popen([OCTET, "train", RECIPE, "--run", self.run_path(name), *words], stdout=out, stderr=out)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, log.read_text())
        return log.read_text(), used.ru_maxrss * 1.024 / 1000

    def recipe_of(self, run):
        text = (self.run_path(run) / "config.yaml").read_text()
        return re.search(r"(?m)^storage: (.*)$", text)[1], int(re.search(r"(?m)^  accumulate: (.*)$", text)[1])

    def least(self, **settings):
        job = self.octet("plan", RECIPE, "--memory-mb", 1, *with_settings({**LARGE, **settings}), code=2)
        self.assertRegex(job.err, "train.memory_mb: 1 is too small: the least is .* with storage: int8, train.accumulate: 8")
        return int(float(re.search(r"the least is ([0-9.]+) MB", job.err)[1])) + 1

    def test_peaks_stay_below_the_limit(self):
        least = self.least(**WIDE)
        wide = {key.replace(".", "__"): value for key, value in WIDE.items()}
        _, whole = self.peak_of("whole", **wide)
        chosen = set()
        for limit in least, least + 10, least + 40, 2000:
            log, peak = self.peak_of(f"of{limit}", train__memory_mb=limit, **wide)
            self.assertLess(peak, limit, log)
            self.assertIn(f"train.memory_mb: {limit} is ", log)
            chosen.add(self.recipe_of(f"of{limit}"))
        self.assertEqual(self.recipe_of("of2000"), ("bf16", 1))
        self.assertEqual(self.recipe_of(f"of{least}"), ("int8", 8))
        self.assertGreaterEqual(len(chosen), 3)
        self.assertLess(least, whole)

    def test_what_a_rank_takes_is_no_less_than_its_peak(self):
        """Of what is beside the network: averages, second moments, threads, pictures in memory, a short rehearsal."""
        cases = {"adamw": {"train__optimizer": "adamw", "train__lr": 0.001}, "averages": {"train__ema": 0.9},
                 "threads": {"backend__threads": 8}, "workers": {"data__workers": 6}, "drawn": {"data__samples": 12800},
                 "minutes": {"train__minutes": 0.05, "train__steps": 0}, "int8": {"storage": "int8"}}
        for name, settings in cases.items():
            log, peak = self.peak_of(name, train__memory_mb=5000, **settings)
            said = float(re.search(r"a rank takes ([0-9.]+) MB", log)[1])
            self.assertLess(peak, said, f"{name}: {log}")

    def test_a_training_takes_what_a_plan_promised(self):
        limit = self.least() - 3
        settings = with_settings({**LARGE, "train.steps": 1})
        while subprocess.run([OCTET, "plan", RECIPE, "--memory-mb", str(limit), *settings], capture_output=True).returncode:
            limit += 1
        self.octet("train", RECIPE, "--run", self.run_path("promised"), "--set", f"train.memory_mb={limit}", *settings)

    def test_a_run_keeps_what_was_chosen(self):
        limit = self.least(**WIDE)
        self.peak_of("kept", train__memory_mb=limit, **{key.replace(".", "__"): value for key, value in WIDE.items()})
        chosen = self.recipe_of("kept")
        self.assertEqual(chosen, ("int8", 8))

        def resumed(steps, memory, code=0):
            return self.octet("train", RECIPE, "--run", self.run_path("kept"), "--resume", code=code,
                              *with_settings({**LARGE, **WIDE, **memory, "train.steps": steps})).err
        for steps, memory in (7, {"train.memory_mb": 2000}), (8, {}):
            self.assertRegex(resumed(steps, memory),
                             r"keeps what it began with, chosen for \d+: storage: int8, train.accumulate: 8")
            self.assertEqual(self.recipe_of("kept"), chosen)
        log = resumed(9, {"train.memory_mb": 20}, code=2)
        self.assertIn("train.memory_mb: 20 is too small for this run, which takes", log)
        self.assertIn("only a new run chooses again", log)

    def test_a_batch_may_follow_from_the_limit(self):
        log, peak = self.peak_of("auto", data__batch="auto", train__memory_mb=110, data__samples=6400)
        self.assertRegex(log, r"data.batch: auto is \d+: it takes \d+ MB of the \d+ MB")
        self.assertLess(peak, 110, log)
        for limit in [], ["--memory-mb", 2000]:  # few images: their number decides, with a limit and without
            few = self.octet("plan", RECIPE, *limit, *with_settings({**LARGE, "data.batch": "auto", "data.samples": 50}))
            self.assertIn("data.batch: auto is 2: it takes", few.err)
        job = self.octet("plan", RECIPE, "--memory-mb", 20, *with_settings({**LARGE, "data.batch": "auto"}), code=2)
        self.assertRegex(job.err, r"train.memory_mb: 20 is too small: the least is \d")
        self.assertRegex(job.err, r"data.batch: auto is 8: it takes \d+ MB as the recipe is, and \d+ MB are left for it")

    def test_stages_freeze_where_weights_are_known(self):
        self.peak_of("first", data__batch=8)
        weights = self.run_path("first") / "weights.safetensors"
        settings = {"model.initial_weights": weights, "data.batch": 8}
        job = self.octet("plan", RECIPE, "--memory-mb", 1, *with_settings({**LARGE, **settings}), code=2)
        self.assertRegex(job.err, r"with train.freeze: layer3.2")
        limit = int(re.search(r"set train.memory_mb to (\d+) or more", job.err)[1])
        for frozen in "layer1.1", "layer3.1", "layer3.2":  # few gradients: 8 bits may then take more than 16
            words = with_settings({**LARGE, **settings, "train.freeze": frozen})
            whole = float(re.search(r"a rank takes ([0-9.]+) MB", self.octet("plan", RECIPE, *words).out)[1])
            job = self.octet("plan", RECIPE, "--memory-mb", int(whole) + 2, *words)
            self.assertIn("is the recipe as it is; a rank takes", job.err)
        log, peak = self.peak_of("tuned", train__memory_mb=limit, **{key.replace(".", "__"): value for key, value in settings.items()})
        self.assertLess(peak, limit, log)

    def test_classes_may_be_those_of_the_data(self):
        recipe = ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml"
        job = self.octet("train", recipe, "--run", self.run_path("open"),
                         *with_settings({**SMALL, "data.batch": 4, "data.samples": 32, "model.classes": 0,
                                         "train.memory_mb": 3000, "train.steps": 2, "train.epochs": 1}))
        self.assertIn("train.memory_mb: 3000 is the recipe as it is", job.err)

    def test_a_gpu_is_refused(self):
        job = self.octet("plan", RECIPE, "--memory-mb", 100, *with_settings({**LARGE, "backend.device": "cuda"}), code=2)
        self.assertIn("train.memory_mb limits the memory of a CPU", job.err)

    def test_ranks_agree(self):
        job = self.octet("train", RECIPE, "--run", self.run_path("ranks"), ranks=2,
                         *with_settings({**LARGE, "train.memory_mb": 2000, "train.steps": 2}))
        self.assertRegex(job.err, r"train.memory_mb: 2000 is the recipe as it is; a rank takes .*, exchange \d")


if __name__ == "__main__":
    main()
