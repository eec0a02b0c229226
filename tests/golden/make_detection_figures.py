#!/usr/bin/env python3
"""Writes detection_figures.json: what the reference evaluations say about detections that tests/tasks/detection_cases.h makes too.

usage: make_detection_figures.py COCO_TINY BCCD    needs numpy and pycocotools
  COCO_TINY  folder with annotations/instances_{train,val}2017.json    BCCD  folder with ImageSets, Annotations

COCO's figures are those of pycocotools. VOC's follow the rules of py-faster-rcnn's voc_eval.py, written here in numpy with
a stable sort. Names and draws are those of detection_cases.h, line by line.
"""

import contextlib
import io
import json
import math
import pathlib
import sys
import xml.etree.ElementTree

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


class Draws:
    """golden::value + 0.5: multiples of 2^-24 in [0, 1)."""

    def __init__(self, salt):
        self.salt, self.count = salt, 0

    def next(self):
        x = (self.count + self.salt * 0x9E3779B9 + 12345) & 0xFFFFFFFF
        self.count += 1
        x ^= x >> 16
        x = x * 0x85EBCA6B & 0xFFFFFFFF
        x ^= x >> 13
        x = x * 0xC2B2AE35 & 0xFFFFFFFF
        x ^= x >> 16
        return (x >> 8) / 16777216

    def below(self, count):
        return math.floor(self.next() * count)


def drawn_truth(salt):
    """Images as lists of objects; 6 classes, the last without objects."""
    draws, images = Draws(salt), []
    for i in range(40):
        objects = []
        for _ in range(draws.below(8)):
            label = draws.below(5)
            x, y = draws.below(500), draws.below(380)
            width = 4 + math.floor(draws.next() * draws.next() * 300)
            height = 4 + math.floor(draws.next() * draws.next() * 300)
            area = width * height * (0.5 + draws.next() / 2)
            kind = draws.below(16)
            objects.append({"box": [x, y, width, height], "label": label, "area": area,
                            "crowd": kind == 0, "difficult": kind in (1, 2)})
        images.append({"id": (7 * i + 3) % 40 + 1, "objects": objects})
    return images


def drawn_score(case, draws):
    score = draws.next()
    kind = case % 5
    if kind == 1:
        return math.floor(score * 8) / 8
    if kind == 2:
        return 0.5
    if kind == 3:
        return 0.0 if score < 0.5 else score
    return score


def drawn_detections(images, classes, case, whole):
    """(image, label, box, score). whole: corners are whole numbers."""
    draws, found = Draws(1000 + case), []

    def add(image, label, box, score):
        found.append((image, label, [float(math.floor(side)) for side in box] if whole else box, score))

    def near(box, spread):
        x = box[0] + (draws.next() - 0.5) * spread * box[2]
        y = box[1] + (draws.next() - 0.5) * spread * box[3]
        width = box[2] * (1 + (draws.next() - 0.5) * spread)
        height = box[3] * (1 + (draws.next() - 0.5) * spread)
        return [x, y, width, height]

    for i, image in enumerate(images):
        for o in image["objects"]:
            if case % 3 == 0 and o["label"] % 4 == 1:
                continue
            for _ in range(draws.below(3)):
                box = near(o["box"], (0, 0.1, 0.3)[draws.below(3)])
                other = draws.below(10) == 0
                label = draws.below(classes) if other else o["label"]
                add(i, label, box, drawn_score(case, draws))
        for _ in range(draws.below(4)):
            label = draws.below(classes)
            x, y = draws.next() * 500, draws.next() * 400
            width, height = 1 + draws.next() * 200, 1 + draws.next() * 200
            add(i, label, [x, y, width, height], drawn_score(case, draws))
        if case % 5 == 4 and i < 3 and image["objects"]:
            first = image["objects"][0]
            for _ in range(150):
                box = near(first["box"], 0.6)
                add(i, first["label"], box, drawn_score(case, draws))
    return found


def coco_figures(truth, category_ids, image_ids, found):
    results = [{"image_id": image_ids[image], "category_id": category_ids[label], "bbox": box, "score": score}
               for image, label, box, score in found]
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(truth, truth.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [round(float(figure), 9) for figure in evaluation.stats]


def as_coco(images, classes):
    truth, annotations = COCO(), []
    for image in images:
        for o in image["objects"]:
            annotations.append({"id": len(annotations) + 1, "image_id": image["id"], "category_id": o["label"] + 1,
                                "bbox": o["box"], "area": o["area"], "iscrowd": int(o["crowd"])})
    truth.dataset = {"info": {}, "images": [{"id": image["id"]} for image in images], "annotations": annotations,
                     "categories": [{"id": c + 1, "name": str(c)} for c in range(classes)]}
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
    return truth


def coco_tiny(folder, split):
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / f"annotations/instances_{split}2017.json"))
    ids = sorted(truth.cats)
    images = [{"id": image["id"],
               "objects": [{"box": a["bbox"], "label": ids.index(a["category_id"])} for a in truth.imgToAnns[image["id"]]]}
              for image in truth.dataset["images"]]
    return truth, ids, images


def voc_figures(images, classes, found, least=0.5):
    """The means of both definitions, and the area of each class (-1 without objects)."""
    areas, elevens = [], []
    for label in range(classes):
        truths = [[o for o in image["objects"] if o["label"] == label] for image in images]
        corners = [np.array([[b[0] + 1, b[1] + 1, b[0] + b[2], b[1] + b[3]] for b in (o["box"] for o in t)], float)
                   for t in truths]
        taken = [np.zeros(len(t), bool) for t in truths]
        objects = sum(not o["difficult"] for t in truths for o in t)
        areas.append(-1.0)
        elevens.append(-1.0)
        if objects == 0:
            continue
        mine = [f for f in found if f[1] == label]
        hit, miss = np.zeros(len(mine)), np.zeros(len(mine))
        for rank, index in enumerate(np.argsort([-f[3] for f in mine], kind="stable")):
            image, _, (x, y, width, height), _ = mine[index]
            box, boxes = [x + 1, y + 1, x + width, y + height], corners[image]
            best = -np.inf
            if len(boxes):
                w = np.maximum(np.minimum(boxes[:, 2], box[2]) - np.maximum(boxes[:, 0], box[0]) + 1, 0)
                h = np.maximum(np.minimum(boxes[:, 3], box[3]) - np.maximum(boxes[:, 1], box[1]) + 1, 0)
                union = ((box[2] - box[0] + 1) * (box[3] - box[1] + 1)
                         + (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1) - w * h)
                overlaps = np.divide(w * h, union, out=np.zeros(len(boxes)), where=union > 0)
                best, at = np.max(overlaps), np.argmax(overlaps)
            if not best > least:
                miss[rank] = 1
            elif not truths[image][at]["difficult"]:
                (miss if taken[image][at] else hit)[rank] = 1
                taken[image][at] = True
        hit, miss = np.cumsum(hit), np.cumsum(miss)
        recall, precision = hit / objects, hit / np.maximum(hit + miss, np.finfo(float).eps)
        elevens[-1] = sum((np.max(precision[recall >= t]) if np.any(recall >= t) else 0) / 11 for t in np.arange(0, 1.1, 0.1))
        recall, precision = np.concatenate([[0], recall, [1]]), np.concatenate([[0], precision, [0]])
        precision = np.maximum.accumulate(precision[::-1])[::-1]
        steps = np.where(recall[1:] != recall[:-1])[0]
        areas[-1] = np.sum((recall[steps + 1] - recall[steps]) * precision[steps + 1])
    counted = [label for label in range(classes) if areas[label] >= 0]
    means = [np.mean([values[label] for label in counted]) if counted else -1 for values in (areas, elevens)]
    return [round(float(figure), 9) for figure in [*means, *areas]]


def bccd_test(folder):
    images, classes = [], ["Platelets", "RBC", "WBC"]
    for name in (folder / "ImageSets/Main/test.txt").read_text().split():
        objects = []
        for o in xml.etree.ElementTree.parse(folder / f"Annotations/{name}.xml").iter("object"):
            left, top, right, bottom = (float(o.find(f"bndbox/{corner}").text) for corner in ("xmin", "ymin", "xmax", "ymax"))
            objects.append({"box": [left - 1, top - 1, right - left + 1, bottom - top + 1],
                            "label": classes.index(o.find("name").text), "difficult": False})
        images.append({"objects": objects})
    return images


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    tiny, bccd = map(pathlib.Path, sys.argv[1:])
    drawn, golden = drawn_truth(1), {"coco_drawn": [], "coco_tiny": [], "voc_drawn": [], "voc_bccd": []}
    truth, ids = as_coco(drawn, 6), [1, 2, 3, 4, 5, 6]
    for case in range(40):
        found = drawn_detections(drawn, 6, case, False)
        golden["coco_drawn"].append(coco_figures(truth, ids, [image["id"] for image in drawn], found))
        golden["voc_drawn"].append(voc_figures(drawn, 6, drawn_detections(drawn, 6, case, case % 2 == 0)))
    for case in range(200):
        if case % 100 == 0:
            truth, ids, images = coco_tiny(tiny, "train" if case < 100 else "val")
        found = drawn_detections(images, 80, case, False)
        golden["coco_tiny"].append(coco_figures(truth, ids, [image["id"] for image in images], found))
    cells = bccd_test(bccd)
    for case in range(20):
        golden["voc_bccd"].append(voc_figures(cells, 3, drawn_detections(cells, 3, case, case % 2 == 0)))
    lists = [f'"{name}": [\n' + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]"
             for name, rows in golden.items()]
    path = pathlib.Path(__file__).with_name("detection_figures.json")
    path.write_text("{" + ",\n".join(lists) + "}\n")


main()
