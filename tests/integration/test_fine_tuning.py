#!/usr/bin/env python3
"""From trained weights to answers: a new head, frozen stages, an early end, a longer run, and `octet predict`."""

import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess

from harness import OCTET, RECIPE, SMALL, Case, environment, main, with_settings, write_png

TRAINED = {**SMALL, "model.name": "resnet18", "train.steps": 8}


def metadata(path):
    """Of a safetensors file."""
    content = path.read_bytes()
    return json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])["__metadata__"]


class FineTuning(Case):
    def setUp(self):
        super().setUp()
        self.train("trained", TRAINED)
        self.weights = self.run_path("trained") / "weights.safetensors"

    def train(self, run, settings, *words, code=0):
        return self.octet("train", RECIPE, "--run", self.run_path(run), *with_settings(settings), *words, code=code)

    def tune(self, run, *words, code=0, **settings):
        tuning = {**TRAINED, "model.initial_weights": self.weights, "train.lr": 0.01, "train.steps": 4}
        return self.train(run, {**tuning, **{key.replace("__", "."): value for key, value in settings.items()}}, *words,
                          code=code)

    def test_new_head_and_frozen_stages(self):
        job = self.tune("tuned", model__head="new", train__freeze="layer2")
        self.assertRegex(job.err, r"weights.safetensors: \d+ tensors loaded; 2 new \(fc.\w+, fc.\w+\)")
        before, after = self.tensors(self.weights), self.tensors(self.run_path("tuned") / "weights.safetensors")
        for name in before:
            frozen = name.startswith(("conv1.", "bn1.", "layer1.", "layer2."))
            self.assertEqual(before[name] == after[name], frozen, name)
        # The integer network has nothing that trains, and nothing to freeze.
        answers = self.octet("eval", self.run_path("tuned"), "--integer")
        self.assertIn("both name the same class for", answers.out)
        self.assertEqual(answers.err, "")
        self.tune("whole")
        arenas = [self.result(run)["arena_bytes"] for run in ("tuned", "whole")]
        self.assertLess(arenas[0], 0.8 * arenas[1])

    def test_mistakes(self):
        for settings, what, fix in (
                ({"train__freeze": "layer7"}, "train.freeze is `layer7`", "name one of conv1, layer1"),
                ({"train__freeze": "fc"}, "behind which no layer trains", "an earlier one"),
                ({"train__freeze": "layer1", "model__initial_weights": ""}, "no weights to freeze", "initial_weights"),
                ({"model__head": "new", "model__initial_weights": ""}, "no weights whose head", "initial_weights"),
                ({"model__name": "resnet34"}, "has no tensor `layer", "weights of the same model"),
                ({"train__patience": 2, "checkpoint__best": "false"}, "train.patience", "checkpoint.best: true")):
            job = self.tune("wrong", code=2, **settings)
            self.assertRegex(job.err, rf"(?s)octet: error.*{what}.*fix: .*{fix}", job)

    def test_changed_weights_are_refused(self):
        changed = self.directory / "changed.safetensors"
        content = bytearray(self.weights.read_bytes())
        content[-1] ^= 1
        changed.write_bytes(content)
        evaluate = ["eval", RECIPE, *with_settings({key: TRAINED[key] for key in TRAINED if key[:5] in ("model", "data.")})]
        self.octet(*evaluate, "--weights", self.weights)
        self.assertIn("has changed since it was saved", self.octet(*evaluate, "--weights", changed, code=2).err)

    def test_patience_ends_a_training(self):
        settings = {**SMALL, "train.steps": 0, "train.epochs": 50, "train.lr": 0, "train.eval_every_epochs": 1,
                    "train.patience": 2, "train.log_every_steps": 50}
        job = self.train("patient", settings)
        self.assertIn("no better evaluation since epoch 1: the training ends", job.err)
        self.assertEqual(self.result("patient")["steps"], 3 * 8)
        job = self.train("patient", settings, "--resume")
        self.assertIn("is finished", job.err)
        self.train("patient", {**settings, "train.patience": 4}, "--resume")
        self.assertEqual(self.result("patient")["steps"], 5 * 8)

    def test_averaged_weights_are_evaluated_and_kept(self):
        settings = {**SMALL, "train.ema": 0.9}
        self.train("straight", settings)
        for steps in 7, 16:
            self.train("resumed", {**settings, "train.steps": steps}, *(["--resume"] if steps > 7 else []))
        straight, resumed = self.result("straight"), self.result("resumed")
        self.assertEqual(straight["weights_sha256"], resumed["weights_sha256"])
        kept = self.tensors(self.run_path("straight") / "weights.safetensors")
        last = self.tensors(self.run_path("straight") / "checkpoints/step-00000016.safetensors")
        ranges = json.loads(metadata(self.run_path("straight") / "weights.safetensors")["activation_ranges"])
        for name, text in ranges.items():
            self.assertEqual(struct.pack("<f", float.fromhex(text)), last["average." + name], name)
        for name in kept:
            self.assertEqual(kept[name], last["average." + name], name)
            self.assertNotEqual(kept[name], last[name], name)
        for file in "weights.safetensors", "checkpoints/step-00000016.safetensors":
            job = self.octet("eval", RECIPE, *with_settings(SMALL), "--weights", self.run_path("straight") / file)
            self.assertAlmostEqual(float(re.search(r"loss ([\d.]+)", job.out)[1]), straight["loss"], delta=1e-3)
        self.train("without", SMALL)
        plain = self.tensors(self.run_path("without") / "weights.safetensors")
        self.assertEqual({name: last[name] for name in plain}, plain)

    def test_the_head_has_a_rate_of_its_own(self):
        self.tune("still", model__head="new", train__lr=1e-30, train__head_lr=0.1, train__decay=0, train__steps=1)
        before, after = self.tensors(self.weights), self.tensors(self.run_path("still") / "weights.safetensors")
        weights = [name for name in before if name.endswith("weight")]
        self.assertEqual([name for name in weights if before[name] != after[name]], ["fc.weight"])
        job = self.tune("wrong", code=2, train__lr=0, train__head_lr=0.1)
        self.assertIn("train.head_lr` follows the schedule of `train.lr`", job.err)

    def test_finished_run_can_be_extended(self):
        settings = {**SMALL, "train.steps": 0, "train.epochs": 1}
        self.train("run", settings)
        job = self.train("run", {**settings, "train.epochs": 2}, "--resume")
        self.assertIn("was planned for 1 epochs and goes on to 2", job.err)
        self.assertEqual(self.result("run")["steps"], 16)
        job = self.train("run", settings, "--resume", code=2)
        self.assertIn("was started with `train.epochs: 2`", job.err)

    def test_predictions(self):
        folder = self.directory / "images"
        folder.mkdir()
        for i in range(5):
            write_png(folder / f"{i}.png", 32 + i, 50 * i)
        (folder / "4, \"bad\".png").write_bytes(b"no image")
        run = self.run_path("trained")
        together = self.octet("predict", run, folder, "--json", "-", "--logits", "--csv", self.directory / "table.csv",
                              "--html", self.directory / "page.html", "--top", 3, code=1)
        self.assertIn("1 of 6 images could not be read", together.err)
        answers = [json.loads(line) for line in together.out.splitlines()]
        self.assertEqual([answer["image"] for answer in answers], [str(folder / f"{i}.png") for i in range(5)])
        for answer in answers:
            self.assertEqual(len(answer["logits"]), 10)
            best = max(range(10), key=answer["logits"].__getitem__)
            self.assertEqual(answer["top"][0]["index"], best)
            alone = self.octet("predict", self.weights, answer["image"], "--json", "-", "--logits", "--top", 3)
            self.assertEqual(json.loads(alone.out), answer)
        rows = list(csv.DictReader(io.StringIO((self.directory / "table.csv").read_text())))
        self.assertEqual(len(rows), 15)
        self.assertEqual((rows[3]["image"], rows[3]["rank"], int(rows[3]["index"])),
                         (answers[1]["image"], "1", answers[1]["top"][0]["index"]))
        page = (self.directory / "page.html").read_text()
        self.assertEqual(page.count("data:image/jpeg;base64,"), 5)
        listed = subprocess.run([OCTET, "predict", run, "-"], input=f"{folder}/3.png\n{folder}/1.png\n", text=True,
                                capture_output=True, env=environment(), timeout=60, check=True)
        self.assertEqual([line.partition(":")[0] for line in listed.stdout.splitlines()],
                         [f"{folder}/3.png", f"{folder}/1.png"])
        for words, what in (([RECIPE, folder], "is a recipe, which has no weights"),
                            ([self.directory, folder], "holds neither best.safetensors nor weights.safetensors"),
                            ([run, folder, "--logits"], "--logits adds numbers to the JSON objects"),
                            ([run, folder, "--json", "-", "--csv", "-"], "would mix on standard output")):
            self.assertIn(what, self.octet("predict", *words, code=2).err)

    def test_predictions_that_leave_at_once(self):
        """A table on a terminal shows control characters. What cannot be printed is an error of the disk."""
        folder, run = self.directory / "many", self.run_path("trained")
        folder.mkdir()
        write_png(folder / "a\x1b[31m.png", 32, 0)
        terminal, end = os.openpty()
        with open(end, "wb") as out:
            subprocess.run([OCTET, "predict", run, folder, "--csv", "-"], stdout=out, env=environment(), timeout=60, check=True)
        shown = os.read(terminal, 4096)
        os.close(terminal)
        self.assertIn(b"a\\x1b[31m.png,1,", shown)
        self.assertNotIn(b"\x1b", shown)
        self.assertIn("a\x1b[31m.png,1,", self.octet("predict", run, folder, "--csv", "-").out)
        for i in range(60):
            write_png(folder / f"{i:0100}.png", 32, i)
        with open("/dev/full", "wb") as full:
            for words in [run, folder], [run, folder / f"{0:0100}.png"], [run, folder, "--csv", "/dev/full"]:
                ended = subprocess.run([OCTET, "predict", *words], stdout=full, stderr=subprocess.PIPE, text=True,
                                       env=environment(), timeout=60, check=False)
                self.assertEqual(ended.returncode, 74, ended.stderr)
                self.assertIn("fix: check", ended.stderr)

    def test_predictions_of_integers(self):
        """They have the form of the training's, and do not depend on the other images."""
        folder, run = self.directory / "shades", self.run_path("trained")
        folder.mkdir()
        for i in range(5):
            write_png(folder / f"{i}.png", 32, 50 * i)
        own, other = ([json.loads(line) for line in self.octet("predict", run, folder, "--json", "-", "--logits", *words).out.splitlines()]
                      for words in (["--integer"], ["--training"]))
        self.assertNotEqual(own, other)
        self.assertEqual(self.octet("predict", run, folder, "--json", "-").out, self.octet("predict", run, folder, "--json", "-", "--integer").out)
        for mine, others in zip(own, other, strict=True):
            self.assertEqual(mine["image"], others["image"])
            for a, b in zip(mine["logits"], others["logits"], strict=True):
                self.assertAlmostEqual(a, b, delta=0.1 * max(map(abs, others["logits"])))
        alone = self.octet("predict", run, own[3]["image"], "--integer", "--json", "-", "--logits")
        self.assertEqual((json.loads(alone.out), alone.err), (own[3], ""))

    def test_calibration(self):
        """Weights of an fp32 training become an int8 network whose answers agree with its own."""
        settings = {**TRAINED, "data.samples": 512, "train.steps": 40, "policy.name": "fp32"}
        self.train("real", settings)
        weights, output = self.run_path("real") / "weights.safetensors", self.directory / "int8.safetensors"
        self.octet("make", "shapes", self.directory / "pictures", "--samples", 70, "--image-size", 64)
        recipe = [RECIPE, *with_settings({key: settings[key] for key in settings if key[:5] in ("model", "data.", "backe")})]
        self.assertIn("octet calibrate", self.octet("eval", *recipe, "--weights", weights, code=2).err)
        refused = self.octet("predict", self.run_path("real"), self.directory / "pictures", "--integer", code=2)
        self.assertIn("policy fp32 has no integer network", refused.err)
        job = self.octet("calibrate", recipe[0], self.directory / "pictures", *recipe[1:], "--weights", weights, "--output", output)
        self.assertIn("with ranges measured on 64 of 78 images: ranges come from whole batches\n", job.out)
        before, after = self.tensors(weights), self.tensors(output)
        self.assertEqual(after, before)
        self.assertNotIn("activation_ranges", metadata(weights))
        self.assertGreater(len(json.loads(metadata(output)["activation_ranges"])), 10)
        tops = [re.search(r"top-1 ([0-9.]+) %", self.octet("eval", RECIPE, *words).out).group(1) for words in (
            [*with_settings({**settings, "train.steps": 1}), "--weights", weights], [*recipe[1:], "--weights", output])]
        self.assertLess(abs(float(tops[0]) - float(tops[1])), 10)

    def test_pixels_are_those_of_the_weights(self):
        """Files say how their pixels were normalized. Other pixels are a warning."""
        self.assertEqual(json.loads(metadata(self.weights)["normalization"]),
                         {"mean": [0.5, 0.5, 0.5], "deviation": [0.25, 0.25, 0.25]})
        own = with_settings({key: TRAINED[key] for key in TRAINED if key[:5] in ("model", "data.")})
        evaluate = ["eval", RECIPE, *own, "--weights", self.weights]
        self.assertNotIn("was trained on pixels", self.octet(*evaluate).err)
        warning = r"warning: \S+ was trained on pixels with data.mean: \[0.5, 0.5, 0.5\] and data.deviation: \[0.25,"
        other = "--set", "data.mean=[0.4, 0.4, 0.4]"
        self.assertRegex(self.octet(*evaluate, *other).err, warning)
        self.assertRegex(self.tune("tuned", *other).err, warning)
        write_png(self.directory / "a.png", 32, 50)
        self.assertRegex(self.octet("predict", self.weights, self.directory / "a.png", *other).err, warning)

    def test_weights_of_another_form(self):
        """The tensors of both forms have the same shapes, so nothing else would tell them apart."""
        small = {**SMALL, "model.name": "mobilenet_v2", "data.name": "synthetic", "data.samples": 8, "data.batch": 4,
                 "data.image_size": 16, "train.steps": 1}
        self.train("small", small)
        weights = self.run_path("small") / "weights.safetensors"
        write_png(self.directory / "a.png", 32, 50)
        large = "--set", "data.image_size=40"
        form = "was trained on images of 16 pixels; for the 40 pixels here mobilenet_v2 has another form"
        for words in (["eval", self.run_path("small"), *large], ["predict", weights, self.directory / "a.png", *large]):
            self.assertRegex(self.octet(*words, code=2).err, rf"{form}\n  fix: set data.image_size to 16")
        self.octet("predict", weights, self.directory / "a.png")
        job = self.train("large", {**small, "data.image_size": 40, "model.initial_weights": weights})
        self.assertRegex(job.err, rf"warning: \S+ {form}")

    def test_recipe_for_a_folder(self):
        folder, recipe = self.directory / "pets' photos", self.directory / "pets.yaml"
        for label, shade in ("cat", 30), ("dog", 200):
            (folder / label).mkdir(parents=True)
            for i in range(30):
                write_png(folder / label / f"{i}.png", 40, shade + i)
        job = self.octet("new", folder, "--output", recipe, "--weights", self.weights)
        self.assertRegex(job.out, r"model.classes +2 +the folders of classes")
        self.assertRegex(job.out, r"train.freeze +layer2 +a class has 2\d images")
        self.assertRegex(job.out, r"data.holdout +0.15 +there is no folder val/")
        self.assertRegex(job.out, r"pets.yaml: training takes about")
        self.assertRegex(recipe.read_text(), r"(?m)^  mean: \[0.5, 0.5, 0.5\]  #.*\n  deviation: \[0.25, 0.25, 0.25\]  #")
        job = self.octet("train", recipe, "--run", self.run_path("pets"), "--set", "train.steps=3")
        self.assertNotIn("was trained on pixels", job.err)
        self.assertIn("cat", self.octet("predict", self.run_path("pets"), folder / "cat" / "1.png").out)
        self.assertIn("exists already", self.octet("new", folder, "--output", recipe, code=2).err)
        own = self.octet("new", folder, "--output", self.directory / "own.yaml")
        self.assertRegex(own.out, r"model.name +resnet18 +a usual network")
        self.assertIn("holds no .jpg", self.octet("new", self.run_path("trained"), "--output", self.directory / "no.yaml",
                                                   code=2).err)

    def test_weights_hold_the_networks_tensors_alone(self):
        """Those that torchvision's resnet18 knows. The ranges beside them are those of the checkpoint."""
        names = {"fc.weight", "fc.bias"}
        layers = [("conv1", "bn1")]
        for stage in 1, 2, 3, 4:
            for block in 0, 1:
                at = f"layer{stage}.{block}."
                layers += [(at + "conv1", at + "bn1"), (at + "conv2", at + "bn2")]
                layers += [(at + "downsample.0", at + "downsample.1")] if stage > 1 and block == 0 else []
        for conv, norm in layers:
            names |= {conv + ".weight", *(f"{norm}.{leaf}" for leaf in ("weight", "bias", "running_mean", "running_var"))}
        best = self.run_path("trained") / "best.safetensors"
        last = self.tensors(self.run_path("trained") / "checkpoints/step-00000008.safetensors")
        ranges = {name: values for name, values in last.items() if name.endswith(".range")}
        self.assertGreater(len(ranges), 10)
        for path in self.weights, best:
            self.assertEqual(set(self.tensors(path)), names)
            self.assertEqual({name: struct.pack("<f", float.fromhex(text))
                              for name, text in json.loads(metadata(path)["activation_ranges"]).items()}, ranges)

    def test_recipe_for_a_folder_with_a_bad_image(self):
        folder, recipe = self.directory / "damaged", self.directory / "damaged.yaml"
        for split, count in ("Training", 12), ("Testing", 4):
            for label, shade in ("cat", 30), ("dog", 200):
                (folder / split / label).mkdir(parents=True)
                for i in range(count):
                    write_png(folder / split / label / f"{i}.png", 40, shade + i)
        (folder / "Training" / "dog" / "11.png").write_bytes(b"")
        (folder / "extra").mkdir()
        write_png(folder / "extra" / "0.png", 40, 100)
        job = self.octet("new", folder, "--output", recipe)
        self.assertRegex(job.err, r"\Aoctet: \S+ \S+ \S+: warning: folders in \S+ hold images and are not read: extra. .*\n\Z")
        self.assertRegex(job.out, r"model.classes +2 ")
        self.assertRegex(job.out, r"data.bad_images +skip +1 of 32 images cannot be read")
        self.assertIn("Training/dog/11.png: the file is empty", job.out)
        self.assertIn("in Training/ and Testing/", recipe.read_text())
        self.octet("train", recipe, "--run", self.run_path("damaged"), "--set", "train.steps=2")
        # Evaluation on images of one class, by the names in the weights.
        shutil.rmtree(folder / "Training")
        shutil.rmtree(folder / "Testing" / "cat")
        job = self.octet("eval", recipe, "--weights", self.run_path("damaged") / "weights.safetensors")
        self.assertIn("lacks 1 of 2 classes, which are not judged: cat", job.err + job.out)

    def test_no_recipe_for_a_folder_that_means_another(self):
        folder, recipe = self.directory / "photos", self.directory / "photos.yaml"
        for name in "cat", "dog", "Test/cat", "Test/dog":
            (folder / name).mkdir(parents=True)
            write_png(folder / name / "0.png", 40, 30)
        move = f"move the folders of classes into {folder}/train"
        self.assertIn(move, self.octet("new", folder, "--output", recipe, code=2).err)
        for name in "cat", "dog":
            (folder / name).rename((folder / "train").mkdir(exist_ok=True) or folder / "train" / name)
        outer = self.directory / "outer"
        outer.mkdir()
        folder.rename(outer / "data")
        self.assertIn(f"did you mean {outer}/data?", self.octet("new", outer, "--output", recipe, code=2).err)
        self.assertFalse(recipe.exists())

    @staticmethod
    def tensors(path):
        """Name -> bytes."""
        content = path.read_bytes()
        end = 8 + struct.unpack("<Q", content[:8])[0]
        return {name: content[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]]
                for name, entry in json.loads(content[8:end]).items() if name != "__metadata__"}


if __name__ == "__main__":
    main()
