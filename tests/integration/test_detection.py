#!/usr/bin/env python3
"""octet eval --detections and octet check, on a data set of objects that is written here."""

import json
import pathlib
import re
import shutil
import struct
import zlib

from harness import RECIPE, ROOT, Case, main, with_settings, write_png

BOX = [10, 20, 30, 40]
CLASSES = "disc ring square frame triangle star cross crescent arrow bars".split()


class Detection(Case):
    def setUp(self):
        super().setUp()
        self.recipe = self.directory / "objects.yaml"

    def write(self, path, content):
        path = self.directory / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def coco(self):
        truth = {"images": [{"id": 5, "file_name": "a.jpg", "width": 100, "height": 100}],
                 "categories": [{"id": 2, "name": "cat"}, {"id": 9, "name": "dog"}],
                 "annotations": [{"id": 1, "image_id": 5, "category_id": 9, "bbox": BOX, "area": 1200, "iscrowd": 0}]}
        for split in "train", "val":
            self.write(f"annotations/instances_{split}2017.json", truth)
        self.recipe.write_text(f"data: {{name: coco, root: {self.directory}}}\n")

    def voc(self):
        xml = "<annotation><object><name>cell</name><bndbox><xmin>11</xmin><ymin>21</ymin><xmax>40</xmax>" \
              "<ymax>60</ymax></bndbox></object></annotation>"
        for name in "train", "val":
            self.write(f"ImageSets/Main/{name}.txt", name + "\n")
            self.write(f"Annotations/{name}.xml", xml)
        self.recipe.write_text(f"data: {{name: voc, root: {self.directory}}}\n")

    def judged(self, results, *options, ranks=1, code=0):
        return self.octet("eval", self.recipe, "--detections", self.write("results.json", results), *options,
                          ranks=ranks, code=code)

    def test_coco_figures(self):
        self.coco()
        results = [{"image_id": 5, "category_id": 9, "bbox": BOX, "score": 0.5}]
        for ranks in 1, 2:
            figures = json.loads(self.judged(results, "--json", ranks=ranks).out)
            self.assertEqual(list(figures), "images AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl by_class at_one_score classes".split())
            self.assertEqual(list(figures["by_class"]), ["dog"])
            self.assertAlmostEqual(figures["AP"], 1)
            self.assertEqual(figures["APs"], -1)
        self.assertRegex(self.judged(results).out, r"1 detections on 1 images\n\nAP +1\.0000\n(?s:.*)\ndog +1 +1\.0000")

    def test_voc_figures(self):
        self.voc()
        results = [{"image_id": "val", "category_id": "cell", "bbox": BOX, "score": 0.5}]
        figures = json.loads(self.judged(results, "--json").out)
        self.assertEqual(list(figures), ["images", "mAP", "AP50", "mAP11", "by_class", "at_one_score", "classes"])
        self.assertEqual((figures["mAP"], figures["AP50"], figures["by_class"]), (1, 1, {"cell": 1}))
        self.assertAlmostEqual(figures["mAP11"], 1)
        self.assertEqual(figures["classes"], [{"class": "cell", "objects": 1, "AP": 1, "AP11": figures["mAP11"], "precision": 1,
                                               "recall": 1, "F1": 1, "score": 0.5}])
        files = self.directory / "a.json", self.directory / "a.csv", self.directory / "a.html"
        self.assertIn("1 detections on 1 images", self.judged(results, "--json", files[0], "--csv", files[1], "--html", files[2]).out)
        self.assertEqual(json.loads(files[0].read_text()), figures)
        self.assertEqual(files[1].read_text().splitlines()[1].split(",")[:3], ["cell", "1", "1.000000"])
        self.assertIn("Precision over recall", files[2].read_text())
        numbers = [{"image_id": 1, "category_id": 1, "bbox": BOX, "score": 0.5}]
        self.assertRegex(self.judged(numbers).out, r"mAP +1\.0000(?s:.*)cell +1 +1\.0000 +1\.0000")

    def test_mistakes_are_wrong_usage(self):
        self.coco()
        unknown = [{"image_id": 6, "category_id": 9, "bbox": BOX, "score": 0.5}]
        self.assertRegex(self.judged(unknown, code=2).err, r"results.json: \[0\].image_id: there is no image 6\n +fix: ")
        self.assertIn("--weights FILE", self.octet("eval", self.recipe, code=2).err)
        self.octet("eval", self.recipe, "--weights", "a", "--detections", "b", code=2)
        self.assertIn("set data.short_side and data.long_side", self.octet("train", self.recipe, code=2).err)
        canvas = with_settings({"data.short_side": 64, "data.long_side": 64, "data.batch": 1, "model.classes": 2})
        self.assertIn("choose data and a network for one task", self.octet("train", self.recipe, *canvas, code=2).err)
        for name in "cifar10", "shapes":
            err = self.octet("check", self.recipe, "--set", f"data.name={name}", code=2).err
            self.assertIn(f"of data.name: coco, voc, yolo, image_folder; data.name is '{name}'", err)
        val = json.loads((self.directory / "annotations/instances_val2017.json").read_text())
        self.write("annotations/instances_val2017.json", {**val, "annotations": []})
        self.assertIn("the test set has no object to find", self.judged([], code=2).err)
        self.assertIn("the test set has no object to find", self.octet(
            "train", self.recipe, *canvas, *with_settings({"model.name": "retinanet"}), code=2).err)
        drawn = self.octet("draw", self.recipe, "--truth", "--output", self.directory / "drawn", *canvas, code=2)
        self.assertIn("a.jpg: No such file", drawn.err)  # it judges nothing, and gets as far as the images
        self.write("annotations/instances_val2017.json", "[")
        self.assertRegex(self.judged([], code=2).err, r"instances_val2017.json: ")

    def test_a_plan_counts_the_classes_of_the_training_set(self):
        """The file of the test set may list fewer."""
        self.coco()
        train = self.directory / "annotations" / "instances_train2017.json"
        truth = json.loads(train.read_text())
        train.write_text(json.dumps({**truth, "categories": [*truth["categories"], {"id": 10, "name": "fox"}]}))
        settings = {"model.name": "retinanet", "model.backbone": "resnet18", "model.neck_channels": 8, "model.head_depth": 1,
                    "data.short_side": 64, "data.long_side": 64, "data.batch": 1}
        counts = [re.search(r"(?m)^(\d+) parameters", self.octet("plan", self.recipe, *with_settings({**settings, "model.classes": classes})).out)[1]
                  for classes in (0, 3, 2)]
        self.assertEqual(counts[0], counts[1])
        self.assertNotEqual(counts[0], counts[2])

    def test_check_fails_on_errors_alone(self):
        self.coco()
        settings = "--set", "model.classes=0"
        page = self.octet("check", self.recipe, *settings, code=1).out
        self.assertRegex(page, r"(?m)^error: 1 image files of train are missing")
        page = self.octet("check", self.recipe, *settings, "--set", "data.bad_images=skip").out
        self.assertRegex(page, r"(?m)^objects +1 +1$")
        self.assertTrue(page.endswith("nothing stops a training\n"), page)
        for split in "train", "val":
            (self.directory / f"{split}2017").mkdir()
            write_png(self.directory / f"{split}2017/a.jpg", 100, len(split))
        page = self.octet("check", self.recipe, *settings).out
        self.assertTrue(page.endswith("nothing is wrong\n"), page)

    def test_photographs_that_fit_both_views_end_the_job(self):
        """Square ones, whose EXIF data say that they are stored turned."""
        self.coco()
        content = b"eXIfMM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"
        chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
        for split in "train", "val":
            file = self.directory / f"{split}2017/a.jpg"
            file.parent.mkdir()
            write_png(file, 100, len(split))
            file.write_bytes(file.read_bytes()[:33] + chunk + file.read_bytes()[33:])
        page = self.octet("check", self.recipe, "--set", "model.classes=0", code=1).out
        for split in "train", "val":
            self.assertRegex(page, rf"(?m)^error: .*/{split}2017/a.jpg \(one of 1 such images\) .*\n +fix: set data.turn_up")
        settings = {**Trained.SETTINGS, "data.name": "coco", "data.root": self.directory, "data.samples": 0,
                    "data.image_size": 0, "data.canvas_heights": "[64]", "data.canvas_widths": "[64]",
                    "data.short_side": 64, "data.batch": 1, "model.classes": 0}
        job = self.octet("train", Trained.RECIPE, "--run", self.run_path("run"), *with_settings(settings), code=2)
        self.assertRegex(job.err, r"train2017/a.jpg \(one of 1 such images\) .*\n +fix: set data.turn_upright to true")


class Trained(Case):
    """A detector of few steps on images that octet draws."""

    RECIPE = str(ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml")
    SETTINGS = {"data.samples": 64, "data.image_size": 64, "data.batch": 8, "data.workers": 1, "train.epochs": 2,
                "train.lr": 0.01, "model.neck_channels": 16, "model.head_depth": 1, "detect.score": 0.005, "backend.threads": 1}

    def test_kept_detections_give_the_figures_of_the_run(self):
        run = self.run_path("run")
        job = self.octet("train", self.RECIPE, "--run", run, *with_settings(self.SETTINGS))
        self.assertRegex(job.out, r"(?m)^class +objects +AP +AP50 +precision +recall +F1 +score$")
        result = self.result("run")
        detections = json.loads((run / "detections.json").read_text())
        self.assertGreater(len(detections), 20)
        self.assertEqual(set(detections[0]), {"image_id", "category_id", "bbox", "score"})
        of_file = json.loads(self.octet("eval", self.RECIPE, *with_settings(self.SETTINGS), "--detections",
                                        run / "detections.json", "--json").out)
        of_weights = json.loads(self.octet("eval", self.RECIPE, *with_settings(self.SETTINGS), "--weights",
                                           run / "weights.safetensors", "--json").out)
        self.assertEqual(of_weights["by_class"], result["by_class"])
        for name in "AP", "AP50", "AR100":
            self.assertEqual(of_weights[name], result[name])
            self.assertAlmostEqual(of_file[name], result[name], delta=2e-3)  # boxes and scores are rounded
        for name, value in result["by_class"].items():
            self.assertAlmostEqual(of_file["by_class"][name], value, delta=1e-2)
        table = self.octet("eval", self.RECIPE, *with_settings(self.SETTINGS), "--weights", run / "best.safetensors").out
        self.assertRegex(table, r"(?m)^AP +\d\.\d{4}$(?s:.*)^class +objects +AP +AP50 +precision +recall +F1 +score$")

    def test_recipe_for_boxes(self):
        folder, recipe = self.directory / "made", self.directory / "made.yaml"
        self.octet("make", "shapes", folder, "--samples", 64, "--image-size", 64)
        job = self.octet("new", folder, "--output", recipe)
        self.assertRegex(job.out, r"data.name +coco +recognised by annotations/instances_train2017.json")
        self.assertRegex(job.out, r"made.yaml: training takes about .*\nnext: octet check ")
        self.octet("check", recipe)
        self.octet("train", recipe, "--run", self.run_path("made"), "--set", "train.steps=2")
        self.assertIn("a backbone", self.octet("new", "--help").out)

    def test_prediction_finds_what_evaluation_found(self):
        """On the files of the test set, named as a folder; one of them is damaged afterwards."""
        self.octet("make", "shapes", self.directory / "shapes", "--samples", 64, "--image-size", 64)
        options = with_settings({**self.SETTINGS, "data.name": "coco", "data.root": self.directory / "shapes",
                                 "data.samples": 0, "data.image_size": 0, "data.canvas_heights": "[64]",
                                 "data.canvas_widths": "[64]", "model.classes": 0})
        run, folder = self.run_path("run"), self.directory / "shapes/val2017"
        self.octet("train", self.RECIPE, "--run", run, *options)
        kept = json.loads((run / "detections.json").read_text())
        names = json.loads((self.directory / "shapes/annotations/instances_val2017.json").read_text())
        name_of = {image["id"]: image["file_name"] for image in names["images"]}
        expected = sorted((name_of[d["image_id"]], d["category_id"], d["bbox"], d["score"]) for d in kept)

        self.assertGreater(len(expected), 20)

        predict = ["predict", self.RECIPE, "--training", *options, "--weights", run / "weights.safetensors"]
        words = [*predict, "--score", 0.005, "--json"]
        self.octet(*words, self.directory / "found.json", folder)
        found = json.loads((self.directory / "found.json").read_text())
        key = lambda d: (d["file_name"].rpartition("/")[2], d["category_id"], d["bbox"], d["score"])
        self.assertEqual(sorted(map(key, found)), expected)
        class_of = {category["id"]: category["name"] for category in names["categories"]}
        self.assertEqual({d["class"] for d in found}, {class_of[d["category_id"]] for d in found})

        bad, one = sorted(folder.iterdir())[1], sorted(folder.iterdir())[0]
        bad.write_bytes(bad.read_bytes()[:100])
        job = self.octet(*words, "-", folder, code=1)
        self.assertRegex(job.err, f"warning: skipped .*{bad.name}: ")
        self.assertIn("1 of 8 images could not be read", job.err)
        lines = sorted(key(json.loads(line)) for line in job.out.splitlines())
        self.assertEqual(lines, [row for row in expected if row[0] != bad.name])

        self.assertIn(f"{one}:", self.octet(*predict, one).out)
        self.assertIn("no such file or folder", self.octet(*predict, self.directory / "absent", code=2).err)
        self.assertIn("without mpirun", self.octet(*predict, one, ranks=2, code=2).err)
        other = self.octet(*predict, "--set", "model.classes=3", one, code=2)
        self.assertIn("set model.classes to 10", other.err)

        pictures = self.directory / "pictures"
        draw = ["draw", self.RECIPE, *options, "--weights", run / "weights.safetensors", "--output", pictures]
        self.assertEqual(self.octet(*draw, "--truth", "--count", 3).out, f"3 pictures in {pictures}\n")
        self.octet(*draw, "--images", folder)
        self.assertEqual(len(list(pictures.iterdir())), 7)  # the three again, and the others that can be read
        self.octet(*draw, "--images", one, "--truth", code=2)
        page = self.octet("inspect", run).out.strip()
        text = pathlib.Path(page).read_text()
        self.assertIn("Precision over recall", text)
        self.assertGreaterEqual(text.count("data:image/jpeg;base64,"), 2)
        shutil.move(self.directory / "shapes", self.directory / "moved")
        text = pathlib.Path(self.octet("inspect", run).out.strip()).read_text()
        self.assertIn("<h2>Classes</h2>", text)
        self.assertIn("The test set of this run cannot be read", text)


class Classifier(Case):
    def test_prediction_names_classes(self):
        """Images of the test set as files get the classes that evaluation gives them."""
        run = self.run_path("run")
        self.train("run", train__steps=40, train__epochs=5)
        folder = self.directory / "images"
        folder.mkdir()
        for name, shade in ("a.png", 30), ("b.png", 200):
            write_png(folder / name, 32, shade)
        job = self.octet("predict", RECIPE, "--weights", run / "weights.safetensors", folder, "--json", "-", "--top", 3)
        answers = [json.loads(line) for line in job.out.splitlines()]
        self.assertEqual([answer["image"] for answer in answers], [str(folder / "a.png"), str(folder / "b.png")])
        for answer in answers:
            top = answer["top"]
            self.assertEqual(len(top), 3)
            self.assertEqual(sorted(top, key=lambda one: -one["probability"]), top)
            self.assertLessEqual(sum(one["probability"] for one in top), 1.00002)
            self.assertEqual([CLASSES[one["index"]] for one in top], [one["class"] for one in top])
        self.assertIn("a.png:", self.octet("predict", RECIPE, "--weights", run / "weights.safetensors", folder).out)
        self.assertIn("--score is for detectors", self.octet("predict", RECIPE, "--weights", run / "weights.safetensors", folder,
                                                             "--score", 0.5, code=2).err)
        self.assertIn("finds no objects that could be drawn", self.octet(
            "draw", RECIPE, "--weights", run / "weights.safetensors", "--output", self.directory / "drawn", code=2).err)


if __name__ == "__main__":
    main()
