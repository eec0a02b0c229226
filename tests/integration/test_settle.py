#!/usr/bin/env python3
"""What a recipe leaves to the machine: data.batch: auto and train.minutes. A run keeps what was decided at its start."""

import re

from harness import RECIPE, SMALL, Case, main, with_settings, write_png


class Settled(Case):
    def recipe_of(self, run):
        text = (self.run_path(run) / "config.yaml").read_text()
        value = lambda section, key: re.search(rf"(?m)^{section}:\n(?:  .*\n)*?  {key}: (.*)", text)[1]
        return {"batch": int(value("data", "batch")), "epochs": int(value("train", "epochs")),
                "minutes": value("train", "minutes")}

    def test_batch_is_decided_once(self):
        job = self.train("auto", data__batch="auto", train__steps=4, train__schedule="constant")
        self.assertEqual(self.recipe_of("auto")["batch"], 8, "256 images make 20 steps of 8")
        self.assertRegex(job.err, r"data.batch: auto is 8: it takes \d+ MB of the \d+ MB that a rank may take")
        self.train("given", data__batch=8, train__steps=4, train__schedule="constant")
        self.assertEqual(self.result("auto")["weights_sha256"], self.result("given")["weights_sha256"])
        # Twice the images would make it 16; the run keeps its own.
        job = self.train("auto", resume=True, data__batch="auto", train__steps=6, train__schedule="constant")
        self.assertEqual(self.recipe_of("auto")["batch"], 8)
        self.assertNotIn("data.batch: auto is", job.err)
        began, continued = (self.run_path("auto") / "config.yaml").read_text().splitlines()[:2]
        self.assertIn("train.steps=4", began)
        self.assertNotIn("--resume", began)
        self.assertRegex(continued, "^# continued by: .*--resume")

    def test_every_command_takes_an_automatic_batch(self):
        self.octet("plan", RECIPE, *with_settings({**SMALL, "data.batch": "auto"}))
        self.train("ranks", ranks=2, data__batch="auto", train__steps=2, train__norm_group=4)
        self.assertEqual(self.recipe_of("ranks")["batch"], 8)
        # Answers need no data of a training.
        image = self.directory / "a.png"
        write_png(image, 32, 90)
        weights = self.run_path("ranks") / "weights.safetensors"
        self.octet("predict", RECIPE, image, "--weights", weights, "--set", "data.name=image_folder",
                   "--set", "data.root=/nowhere", "--set", "data.batch=auto")
        job = self.octet("plan", RECIPE, *with_settings({**SMALL, "data.batch": "many"}), code=2)
        self.assertIn("takes integer 1 .. 16777216, or auto, not `many`", job.err)

    def test_epochs_fit_into_the_time(self):
        job = self.train("timed", train__minutes=0.1, train__steps=0, data__samples=128)
        recipe = self.recipe_of("timed")
        self.assertRegex(job.err, rf"train.minutes: 0.1 is {recipe['epochs']} epochs of about")
        self.assertEqual(recipe["minutes"], "0")
        self.assertGreater(recipe["epochs"], 1)
        self.assertEqual(self.result("timed")["epochs"], recipe["epochs"])
        job = self.train("timed", resume=True, train__minutes=5, train__steps=0, data__samples=128)
        self.assertIn("is finished", job.err)
        self.assertEqual(self.recipe_of("timed"), recipe)

    def test_too_short(self):
        job = self.train("short", code=2, train__minutes=0.0001, train__steps=0)
        self.assertRegex(job.err, r"(?s)train.minutes: 0.0001 is too short: an epoch takes about .*set train.minutes to \d+\.\d ")
        job = self.train("warm", code=2, train__minutes=0.0001, train__steps=0, train__warmup_epochs=3)
        self.assertIn("train.warmup_epochs: 3 needs 4 epochs", job.err)
        self.assertFalse(self.run_path("short").exists())
        self.assertIn("both say when", self.train("both", code=2, train__minutes=1).err)
        job = self.train("falls", code=2, train__minutes=1, train__steps=0, train__schedule="step")
        self.assertIn("set train.schedule: cosine", job.err)


if __name__ == "__main__":
    main()
