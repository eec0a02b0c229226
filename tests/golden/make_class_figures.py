#!/usr/bin/env python3
"""Writes class_figures.json: what scikit-learn's classification_report says about drawn labels and answers.

usage: make_class_figures.py    needs scikit-learn; the committed file is of version 1.9.1

Each case has labels, answers and, of a number of classes, the figures of each class and the means. In some cases classes
have no images, or no answer names them, or both.
"""

import json
import pathlib
import random

from sklearn.metrics import classification_report

draws = random.Random(20)


def case(classes, images, share_right, labels, answers):
    """labels, answers: the classes that are drawn from."""
    truth = [draws.choice(labels) for _ in range(images)]
    found = [label if draws.random() < share_right else draws.choice(answers) for label in truth]
    report = classification_report(truth, found, labels=range(classes), output_dict=True, zero_division=0)
    figures = [report[str(label)] for label in range(classes)] + [report["macro avg"], report["weighted avg"]]
    return {"classes": classes, "label": truth, "predicted": found, "accuracy": report["accuracy"],
            "figures": [[of["precision"], of["recall"], of["f1-score"], of["support"]] for of in figures]}


cases = [case(10, 500, 0.7, range(10), range(10)),
         case(2, 40, 0.5, range(2), range(2)),
         case(6, 60, 0.6, (0, 2, 3), (0, 1, 3)),  # 1: no image; 2: right answers alone name it; 4 and 5: neither
         case(4, 20, 0, (0,), (3,)),              # nothing is right
         case(40, 300, 0.9, range(35), range(40))]
path = pathlib.Path(__file__).with_name("class_figures.json")
path.write_text("[\n" + ",\n".join(json.dumps(of) for of in cases) + "\n]\n")
