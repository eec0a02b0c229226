#!/usr/bin/env bash
# pycocotools judges detections whose categories the annotations do not have, without a word.
#
# Versions: pycocotools 2.0.11, numpy 2.4.6.
# Documented: COCO.loadRes(resFile) "Load result file and return a result api object"; it checks that every image_id is
#   one of the annotations ("Results do not correspond to current coco set").
# Seen: image ids are checked, category ids are not. A result file that counts its classes from 0, as many networks do,
#   loads, and its figures are those of the shifted classes: AP 0 here for perfect boxes. COCOeval's categories are those
#   of the annotations, so a class of the results that the annotations lack counts neither as found nor as wrong.
# For training: a low figure looks like a bad network, and is a wrong numbering.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pycocotools==2.0.11 numpy==2.4.6
cd "$work"
venv/bin/python - <<'P'
import contextlib, io
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
box, truth = [10, 10, 40, 40], COCO()
truth.dataset = {"images": [{"id": 1, "width": 100, "height": 100}, {"id": 2, "width": 100, "height": 100}],
                 "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
                 "annotations": [{"id": i, "image_id": i, "category_id": i, "bbox": box, "area": 1600, "iscrowd": 0}
                                 for i in (1, 2)]}
def figures(categories, image=2):
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        found = truth.loadRes([{"image_id": i, "category_id": c, "bbox": box, "score": 0.9}
                               for i, c in zip((1, image), categories)])
        judge = COCOeval(truth, found, "bbox")
        judge.evaluate(), judge.accumulate(), judge.summarize()
    return float(judge.stats[0])
right, from_zero, unknown = figures((1, 2)), figures((0, 1)), figures((77, 78))
print("AP: right categories", right, "counted from 0", from_zero, "unknown categories", unknown)
try:
    figures((1, 2), image=99)
    refused = False
except AssertionError as error:
    refused = True
    print("an unknown image is refused:", error)
raise SystemExit(0 if (round(right, 3), from_zero, unknown, refused) == (1, 0, 0, True) else "the behaviour has changed")
P
