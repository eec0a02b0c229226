#!/usr/bin/env python3
"""octet eval RUN --images DIR: figures of classes on folders of images, against figures that are computed here from the answers of
octet predict, and against scikit-learn where it is installed; of detectors on the same boxes in three forms."""

import csv
import json
import pathlib
import random
import shutil

from harness import ROOT, Case, main, with_settings, write_png

CLASSES = "ash bone coal dust flint grey iron lead mist soot".split()


def figures_of(truth, found, classes):
    """Precision, recall, F1 and support of each class; what divides by zero is 0."""
    rows = {}
    for name in classes:
        right = sum(t == f == name for t, f in zip(truth, found))
        predicted, support = found.count(name), truth.count(name)
        precision, recall = right / max(predicted, 1), right / max(support, 1)
        f1 = 2 * precision * recall / (precision + recall) if right else 0
        rows[name] = (precision, recall, f1, support)
    return rows


class Classifier(Case):
    def setUp(self):
        super().setUp()
        self.draws = random.Random(7)
        trained = self.directory / "trained"
        self.write_shades(trained, CLASSES, 20)
        self.train("run", data__name="image_folder", data__root=trained, data__image_size=32, data__holdout=0.2,
                   data__samples=0, model__classes=len(CLASSES), data__batch=32, train__steps=20)
        self.run_folder = self.run_path("run")

    def write_shades(self, root, classes, images):
        """Gray images whose shades overlap with those of the next classes, so that some answers are wrong."""
        for name in classes:
            (root / name).mkdir(parents=True)
            for number in range(images):
                shade = 25 * CLASSES.index(name) + self.draws.randrange(40) - 10
                write_png(root / name / f"{number}.png", 32, min(max(shade, 0), 255))

    def judged(self, folder, *options, ranks=1, code=0):
        return json.loads(self.octet("eval", self.run_folder, "--json", "--images", folder, *options, ranks=ranks, code=code).out)

    def answers(self, folder, kernels):
        """Truth and answers of octet predict."""
        objects = [json.loads(line) for line in
                   self.octet("predict", self.run_folder, folder, kernels, "--top", 1, "--json", "-").out.splitlines()]
        return ([pathlib.Path(of["image"]).parent.name for of in objects], [of["top"][0]["class"] for of in objects])

    def expect_figures(self, judged, truth, found):
        rows = figures_of(truth, found, CLASSES)
        self.assertEqual([of["class"] for of in judged["classes"]], CLASSES)
        for of in judged["classes"]:
            for key, value in zip(("precision", "recall", "F1", "support"), rows[of["class"]]):
                self.assertAlmostEqual(of[key], value, delta=1e-12)
        self.assertAlmostEqual(judged["accuracy"], sum(t == f for t, f in zip(truth, found)) / len(truth), delta=1e-12)
        self.assertAlmostEqual(judged["macro_average"]["F1"], sum(row[2] for row in rows.values()) / len(rows), delta=1e-12)
        self.assertAlmostEqual(judged["weighted_average"]["F1"], sum(row[2] * row[3] for row in rows.values()) / len(truth), delta=1e-12)
        for label in CLASSES:
            for answer in CLASSES:
                count = sum(t == label and f == answer for t, f in zip(truth, found))
                self.assertEqual(judged["confusion"].get(label, {}).get(answer, 0), count)

    def test_figures_are_those_of_the_answers(self):
        folder = self.directory / "other"
        self.write_shades(folder, CLASSES, 50)
        truth, found = self.answers(folder, "--training")
        self.assertEqual(len(truth), 500)
        judged = self.judged(folder)
        self.assertTrue(0.1 < judged["accuracy"] < 1, judged["accuracy"])
        self.expect_figures(judged, truth, found)
        self.assertAlmostEqual(judged["top1"], judged["accuracy"], delta=1e-12)
        self.assertEqual((judged["unread"], judged["absent"]), (0, []))
        self.expect_figures(self.judged(folder, "--integer"), *self.answers(folder, "--integer"))
        both = self.judged(folder, ranks=2)
        self.assertAlmostEqual(both.pop("loss"), judged.pop("loss"), delta=1e-6)
        self.assertEqual(both, judged)
        try:
            from sklearn.metrics import classification_report
        except ImportError:
            self.skipTest("scikit-learn is not installed; tests/golden/class_figures.json has its figures of other answers")
        report = classification_report(truth, found, labels=CLASSES, output_dict=True, zero_division=0)
        for of in [*judged["classes"], {"class": "macro avg", **judged["macro_average"]},
                   {"class": "weighted avg", **judged["weighted_average"]}]:
            for key, name in (("precision", "precision"), ("recall", "recall"), ("F1", "f1-score")):
                self.assertAlmostEqual(of[key], report[of["class"]][name], delta=1e-12)

    def test_forms_of_output(self):
        some = self.directory / "some"
        self.write_shades(some, CLASSES[2:5], 12)  # of other numbers than in training
        files = [self.directory / f"judged.{ending}" for ending in ("json", "csv", "html")]
        words = [word for file in files for word in (f"--{file.suffix[1:]}", file)]
        page = self.octet("eval", self.run_folder, "--images", some, *words).out
        self.assertRegex(page, r"(?s)^36 images judged: .*\ntest loss .*\nclass +precision +recall +F1 +support\nash .*\nmacro average ")
        self.assertIn("7 of 10 classes have no images; each counts as 0 in the macro average\n", page)
        self.assertLessEqual(max(len(line) for line in page.splitlines()[1:]), 80)
        truth, found = self.answers(some, "--training")
        self.expect_figures(json.loads(files[0].read_text()), truth, found)
        rows = list(csv.DictReader(files[1].open(newline="")))
        self.assertEqual([row["class"] for row in rows], CLASSES)
        self.assertEqual(sum(int(row["predicted"]) for row in rows), 36)
        self.assertIn("Confusion matrix", files[2].read_text())
        self.assertIn("The most confident mistakes", files[2].read_text())
        self.assertTrue(self.octet("eval", self.run_folder, "--csv", "-").out.startswith("class,precision,"))
        for words in (["--json", self.run_folder], ["--json", self.run_folder, "--set", "data.workers=1"]):
            self.assertIn("confusion", json.loads(self.octet("eval", *words).out))  # the run is no file to write
        self.assertIn("network is required", self.octet("eval", "--json", code=2).err)
        self.assertIn("would mix on standard output", self.octet("eval", self.run_folder, "--json", "--csv", "-", code=2).err)

    def test_what_cannot_be_judged(self):
        folder = self.directory / "folder"
        self.write_shades(folder, CLASSES[:2], 4)
        (folder / "ash" / "0.png").write_bytes(b"no picture")
        for ranks in 1, 2:
            job = self.octet("eval", self.run_folder, "--images", folder, ranks=ranks, code=1)
            self.assertRegex(job.out, r"^7 images judged: ")
            self.assertRegex(job.err, r"skipped .*ash/0.png: (?s:.*)1 of 8 images could not be read")
        for file in (self.directory / "trained" / "ash").iterdir():
            file.write_bytes(b"no picture")
        self.octet("eval", self.run_folder, code=1)
        self.octet("eval", self.run_folder, "--set", "data.bad_images=skip")  # the recipe takes them as they are
        (folder / "csah").mkdir()
        write_png(folder / "csah" / "0.png", 32, 1)
        self.assertRegex(self.octet("eval", self.run_folder, "--images", folder, code=2).err,
                         r"no classes of the network: csah \(nearest: `ash`\)\n +fix: name the folders as the classes")
        flat = self.directory / "flat"
        flat.mkdir()
        write_png(flat / "0.png", 32, 1)
        (flat / "labels.csv").write_text("0.png,ash\n")
        self.assertRegex(self.octet("eval", self.run_folder, "--images", flat, code=2).err,
                         r"Looked for: a folder of images for each class. Found: 1 .csv, 1 .png\n")


def overlap(a, b):
    """Of boxes x, y, width, height: what both cover of what either covers."""
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / (a[2] * a[3] + b[2] * b[3] - both)


class Detector(Case):
    RECIPE = str(ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml")
    SETTINGS = {"data.samples": 64, "data.image_size": 64, "data.batch": 8, "data.workers": 1, "train.epochs": 2,
                "train.lr": 0.01, "model.neck_channels": 16, "model.head_depth": 1, "detect.score": 0.005, "backend.threads": 1}

    def setUp(self):
        super().setUp()
        self.made = self.directory / "made"
        self.octet("make", "shapes", self.made, "--samples", 40, "--image-size", 64)
        self.truth = json.loads((self.made / "annotations/instances_val2017.json").read_text())
        self.pictures = self.made / "val2017"

    def judged(self, folder, *options, ranks=1, code=0):
        return json.loads(self.octet("eval", self.run_folder, "--json", "--images", folder, *options, ranks=ranks, code=code).out)

    def objects(self):
        """Images with their objects: class and x, y, width, height."""
        names = {of["id"]: of["name"] for of in self.truth["categories"]}
        for image in self.truth["images"]:
            yield image, [(names[of["category_id"]], of["bbox"]) for of in self.truth["annotations"] if of["image_id"] == image["id"]]

    def write_voc(self, folder):
        folder.mkdir()
        for image, objects in self.objects():
            shutil.copy(self.pictures / image["file_name"], folder)
            boxes = "".join(f"<object><name>{name}</name><bndbox><xmin>{x + 1}</xmin><ymin>{y + 1}</ymin><xmax>{x + w}</xmax>"
                            f"<ymax>{y + h}</ymax></bndbox></object>" for name, (x, y, w, h) in objects)
            (folder / image["file_name"]).with_suffix(".xml").write_text(f"<annotation>{boxes}</annotation>")

    def write_yolo(self, folder):
        for below in "images", "labels":
            (folder / below).mkdir(parents=True)
        classes = sorted({of["name"] for of in self.truth["categories"]}, reverse=True)  # of other numbers than in training
        (folder / "data.yaml").write_text(f"names: {json.dumps(classes)}\n")
        for image, objects in self.objects():
            shutil.copy(self.pictures / image["file_name"], folder / "images")
            lines = [f"{classes.index(name)} {(x + w / 2) / 64!r} {(y + h / 2) / 64!r} {w / 64!r} {h / 64!r}\n"
                     for name, (x, y, w, h) in objects]
            (folder / "labels" / image["file_name"]).with_suffix(".txt").write_text("".join(lines))

    def train_detector(self):
        self.run_folder = self.run_path("run")
        self.octet("train", self.RECIPE, "--run", self.run_folder, *with_settings(self.SETTINGS))

    def test_boxes_in_three_forms(self):
        """Of the same boxes the figures are the same, but for the last bits of coordinates."""
        self.train_detector()
        coco = self.judged(self.made)
        voc, yolo, beside = (self.directory / name for name in ("voc", "yolo", "beside"))
        self.write_voc(voc)
        self.write_yolo(yolo)
        shutil.copytree(self.pictures, beside)
        (beside / "_annotations.coco.json").write_text(json.dumps(self.truth))
        self.assertEqual(self.judged(beside), coco)
        self.assertEqual(coco["images"], len(self.truth["images"]))
        self.assertGreater(coco["AP50"], 0)
        for folder in voc, yolo:
            other = self.judged(folder)
            self.assertEqual([(of["class"], of["objects"]) for of in other["classes"]], [(of["class"], of["objects"]) for of in coco["classes"]])
            for key in "AP", "AP50", "AR100":
                self.assertAlmostEqual(other[key], coco[key], delta=1e-3)
        two = self.judged(self.made, ranks=2)
        self.assertEqual((two["classes"], two["at_one_score"]), (coco["classes"], coco["at_one_score"]))
        self.check_outputs(coco)

    def test_best_scores_of_stored_detections(self):
        """Against every threshold of score in turn, on detections near the objects and elsewhere."""
        draws, found = random.Random(5), []
        for image, objects in self.objects():
            for name, box in objects * 2:
                moved = [value + draws.uniform(-4, 4) for value in box[:2]] + [value * draws.uniform(0.8, 1.2) for value in box[2:]]
                found.append({"image_id": image["id"], "category_id": name if draws.random() < 0.8 else "disc", "bbox": moved,
                              "score": draws.randrange(20) / 20})
        recipe = self.directory / "objects.yaml"
        recipe.write_text(f"data: {{name: coco, root: {self.made}}}\n")
        (self.directory / "found.json").write_text(json.dumps(found))
        judged = json.loads(self.octet("eval", recipe, "--detections", self.directory / "found.json", "--json").out)
        matches = {of["class"]: self.matches(of["class"], found) for of in judged["classes"]}
        counts = {of["class"]: of["objects"] for of in judged["classes"]}
        for of in judged["classes"]:
            self.expect_best(of, matches[of["class"]], counts[of["class"]])
        together = [match for name, of in matches.items() if counts[name] > 0 for match in of]
        self.expect_best(judged["at_one_score"], together, sum(counts.values()))

    def expect_best(self, judged, matches, objects):
        """matches: the score of each detection, and whether it finds an object."""
        if objects == 0:
            return self.assertEqual(judged["F1"], -1)
        best = (0, -1, 0, 0)
        for least in sorted({score for score, _ in matches}, reverse=True):
            kept = [right for score, right in matches if score >= least]
            f1 = 2 * sum(kept) / (len(kept) + objects)
            if f1 > best[0]:
                best = (f1, least, sum(kept) / len(kept), sum(kept) / objects)
        for key, value in zip(("F1", "score", "precision", "recall"), best):
            self.assertAlmostEqual(judged[key], value, delta=1e-12)

    def matches(self, name, found):
        """Each detection, the best first, takes the object that it overlaps most by half or more, and of equals the last."""
        matches = []
        for image, objects in self.objects():
            own = [of for of in found if of["image_id"] == image["id"] and of["category_id"] == name]
            left = [box for label, box in objects if label == name]
            for of in sorted(own, key=lambda of: -of["score"]):
                overlaps = [overlap(of["bbox"], box) for box in left]
                most = max(overlaps, default=0)
                if most >= 0.5:
                    del left[len(left) - 1 - overlaps[::-1].index(most)]
                matches.append((of["score"], most >= 0.5))
        return matches

    def check_outputs(self, coco):
        for of in coco["classes"]:
            self.assertEqual(of["objects"], sum(name == of["class"] for _, objects in self.objects() for name, _ in objects))
        page = self.octet("eval", self.run_folder, "--images", self.made, "--html", self.directory / "page.html", "--csv",
                          self.directory / "classes.csv").out
        self.assertRegex(page, r"(?m)^class +objects +AP +AP50 +precision +recall +F1 +score$")
        self.assertRegex(page, r"(?m)^at one score for all ")
        self.assertIn("Precision over recall", (self.directory / "page.html").read_text())
        rows = list(csv.DictReader((self.directory / "classes.csv").open(newline="")))
        self.assertEqual([row["class"] for row in rows], [of["class"] for of in coco["classes"]])

    def test_what_cannot_be_judged(self):
        self.train_detector()
        voc, yolo = self.directory / "voc", self.directory / "yolo"
        self.write_voc(voc)
        self.write_yolo(yolo)
        first, second = (image["file_name"] for image in self.truth["images"][:2])
        (voc / first).unlink()
        (yolo / "images" / first).unlink()
        for folder in voc, yolo:
            judged = self.judged(folder)
            self.assertEqual((judged["images"], len(judged["absent"])), (len(self.truth["images"]) - 1, 1), judged["absent"])
            self.assertIn("and were not judged: 1\n  ", self.octet("eval", self.run_folder, "--images", folder).out)
        (voc / second).write_bytes(b"no picture")
        judged = self.judged(voc, code=1)
        self.assertEqual((judged["images"], judged["unread"]), (len(self.truth["images"]) - 2, 1))
        left = sum(len(objects) for image, objects in self.objects() if image["file_name"] not in (first, second))
        self.assertEqual(sum(of["objects"] for of in judged["classes"]), left)
        xml = next(path for path in voc.glob("*.xml") if "<name>disc</name>" in path.read_text() and path.stem != pathlib.Path(first).stem)
        xml.write_text(xml.read_text().replace("<name>disc</name>", "<name>dics</name>"))
        self.assertRegex(self.octet("eval", self.run_folder, "--images", voc, code=2).err,
                         r"classes that the network does not know: dics \(nearest: `disc`\)\n")
        self.assertRegex(self.octet("eval", self.run_folder, "--images", self.pictures, code=2).err,
                         rf"no boxes of objects here. Looked for: data.yaml .*XML files .*Found: {len(self.truth['images'])} .png\n")


if __name__ == "__main__":
    main()
