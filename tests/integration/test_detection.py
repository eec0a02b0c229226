#!/usr/bin/env python3
"""octet eval --detections and octet check, on a data set of objects that is written here."""

import json
import unittest

from harness import Case, main

BOX = [10, 20, 30, 40]


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
            self.assertEqual(list(figures), "AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl".split())
            self.assertAlmostEqual(figures["AP"], 1)
            self.assertEqual(figures["APs"], -1)
        self.assertRegex(self.judged(results).out, r"1 detections on 1 images\n\nAP +1\.0000\n(?s:.*)\ndog +1 +1\.0000")

    def test_voc_figures(self):
        self.voc()
        results = [{"image_id": "val", "category_id": "cell", "bbox": BOX, "score": 0.5}]
        figures = json.loads(self.judged(results, "--json").out)
        self.assertEqual(list(figures), ["mAP", "AP50", "mAP11", "by_class"])
        self.assertEqual((figures["mAP"], figures["AP50"], figures["by_class"]), (1, 1, {"cell": 1}))
        self.assertAlmostEqual(figures["mAP11"], 1)
        numbers = [{"image_id": 1, "category_id": 1, "bbox": BOX, "score": 0.5}]
        self.assertRegex(self.judged(numbers).out, r"mAP +1\.0000(?s:.*)cell +1 +1\.0000 +1\.0000")

    def test_mistakes_are_wrong_usage(self):
        self.coco()
        unknown = [{"image_id": 6, "category_id": 9, "bbox": BOX, "score": 0.5}]
        self.assertRegex(self.judged(unknown, code=2).err, r"results.json: \[0\].image_id: there is no image 6\n +fix: ")
        self.assertIn("--weights FILE or --detections FILE", self.octet("eval", self.recipe, code=2).err)
        self.octet("eval", self.recipe, "--weights", "a", "--detections", "b", code=2)
        self.assertIn("set data.short_side and data.long_side", self.octet("train", self.recipe, code=2).err)
        self.assertIn("data.name ", self.octet("check", self.recipe, "--set", "data.name=cifar10", code=2).err)
        self.write("annotations/instances_val2017.json", "[")
        self.assertRegex(self.judged([], code=2).err, r"instances_val2017.json: ")

    def test_check_fails_on_errors_alone(self):
        self.coco()
        settings = "--set", "model.classes=0"
        page = self.octet("check", self.recipe, *settings, code=1).out
        self.assertRegex(page, r"(?m)^error: 1 image files of train are missing")
        page = self.octet("check", self.recipe, *settings, "--set", "data.bad_images=skip").out
        self.assertRegex(page, r"(?m)^objects +1 +1$")
        self.assertTrue(page.endswith("nothing is wrong\n"), page)


if __name__ == "__main__":
    main()
