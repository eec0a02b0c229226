#!/usr/bin/env python3
"""Times `octet eval --detections` beside pycocotools on drawn files of COCO's size, and octet's reading of the training file.

usage: judge.py DIR [--program OCTET]        DIR gets 0.6 GB of files, which are drawn once

Two data sets in COCO's layout: `val` has 5,000 images, 36,781 objects and 500,000 detections; `train` has 118,287 images and
860,001 objects with outlines, and no detections, so that its time is that of reading. Prints one JSON line for each run.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import time

CATEGORIES = [i for i in range(1, 91) if i not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]
SETS = {"val": (5_000, 36_781, 500_000, 0), "train": (118_287, 860_001, 0, 24)}  # images, objects, detections, points of an outline


def box(draw):
    width, height = draw.uniform(4, 320), draw.uniform(4, 240)
    return [round(draw.uniform(0, 640 - width), 2), round(draw.uniform(0, 480 - height), 2), round(width, 2), round(height, 2)]


def make(root, images, objects, detections, points):
    """Half of the detections are near an object, so that there is something to find."""
    draw = random.Random(1)
    truth = [{"id": i + 1, "image_id": draw.randrange(images) + 1, "category_id": draw.choice(CATEGORIES), "bbox": box(draw),
              "iscrowd": int(draw.random() < 0.01)} for i in range(objects)]
    for item in truth:
        item["area"] = item["bbox"][2] * item["bbox"][3] * 0.7
        item["segmentation"] = [[round(draw.uniform(0, 640), 2) for _ in range(2 * points)]] if points else []
    found = []
    for _ in range(detections):
        if draw.random() < 0.5:
            item = draw.choice(truth)
            moved = [round(max(value + draw.gauss(0, 6), 1), 2) for value in item["bbox"]]
            found.append({"image_id": item["image_id"], "category_id": item["category_id"], "bbox": moved})
        else:
            found.append({"image_id": draw.randrange(images) + 1, "category_id": draw.choice(CATEGORIES), "bbox": box(draw)})
        found[-1]["score"] = round(draw.random(), 5)
    (root / "annotations").mkdir(parents=True)
    (root / "detections.json").write_text(json.dumps(found))
    (root / "annotations/instances_val2017.json").write_text(json.dumps({
        "info": {}, "licenses": [], "annotations": truth, "categories": [{"id": i, "name": f"category {i}"} for i in CATEGORIES],
        "images": [{"id": i + 1, "file_name": f"{i + 1:012}.jpg", "width": 640, "height": 480} for i in range(images)]}))
    (root / "recipe.yaml").write_text(f"data: {{name: coco, root: {root}}}\n")


def pycocotools(root):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth = COCO(str(root / "annotations/instances_val2017.json"))
    judge = COCOeval(truth, truth.loadRes(str(root / "detections.json")), "bbox")
    judge.evaluate()
    judge.accumulate()
    judge.summarize()
    print(json.dumps({"AP": judge.stats[0]}))


def run(name, command):
    """The JSON object that the command prints last, with its time and memory."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"judge.py: {' '.join(command)} failed")
    print(json.dumps({"run": name, "AP": json.loads(output.strip().splitlines()[-1])["AP"],
                      "seconds": round(time.perf_counter() - start, 2),
                      "processor_seconds": round(usage.ru_utime + usage.ru_stime, 2),
                      "peak_MB": round(usage.ru_maxrss / 1024)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--program", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release/octet"))
    parser.add_argument("--reference", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--make", choices=SETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    root = options.directory.resolve()
    if options.reference:
        return pycocotools(root)
    if options.make:
        return make(root, *SETS[options.make])
    for name in SETS:
        if not (root / name).exists():  # in another process, whose memory would count as that of the programs behind
            subprocess.run([sys.executable, __file__, str(root / name), "--make", name], check=True)
        size = (root / name / "annotations/instances_val2017.json").stat().st_size / 1e6
        print(f"{name}: annotations of {size:.0f} MB", file=sys.stderr)
        run(f"octet {name}", [options.program, "eval", str(root / name / "recipe.yaml"), "--detections",
                              str(root / name / "detections.json"), "--json"])
    run("pycocotools val", [sys.executable, __file__, str(root / "val"), "--reference"])


if __name__ == "__main__":
    main()
