#!/usr/bin/env python3
"""Short trainings end with the weights that are stored in weights.json, bit for bit.

The weights of an INT8 policy do not depend on the processor, so the stored digests hold on every machine. The convolutions of the
other policies are a library's, so their weights are compared with those of an earlier build on the same machine.

usage: test_weights.py              compares with weights.json
       test_weights.py --store      writes weights.json; only in a commit that says why weights change
environment: OCTET_BEFORE  the program of the earlier build; without it that comparison is skipped
"""

import json
import os
import pathlib
import sys
import unittest

import harness
from harness import Case

STORED = pathlib.Path(__file__).with_name("weights.json")

# 12 steps with clip searches in steps 0, 1, 2, 4, 8; momentum, decay, a warm-up and the cosine schedule.
COMMON = {"data__batch": 16, "data__samples": 64, "train__epochs": 3, "train__steps": 12, "train__warmup_epochs": 1,
          "train__lr": 0.05, "backend__threads": 2}
LARGE = {"data__name": "synthetic", "data__batch": 4, "data__samples": 16, "train__steps": 6, "train__epochs": 2}

NATIVE = {
    "resnet20": {},
    "resnet20-storage-int8": {"storage": "int8"},
    "resnet20-storage-f32": {"storage": "f32"},
    "resnet20-2-ranks": {"ranks": 2, "backend__threads": 1},
    "resnet20-2-ranks-fp32-exchange": {"ranks": 2, "backend__threads": 1, "comm__exchange": "fp32"},
    "resnet20-all-layers-signed": {"policy__quantize_first": "true", "policy__quantize_last": "true",
                                   "policy__unsigned_activations": "false"},
    "resnet20-4-bit-weights": {"policy__bits__weight": 4},
    "resnet20-no-clipping": {"policy__clip__enabled": "false", "policy__lr_scale__enabled": "false"},
    "mobilenet_v2": {"model__name": "mobilenet_v2", "train__steps": 6},
    "mobilenet_v2-storage-int8": {"model__name": "mobilenet_v2", "train__steps": 6, "storage": "int8"},
    "resnet18-64-pixels": {**LARGE, "model__name": "resnet18", "data__image_size": 64},
    "resnet50-64-pixels-2-ranks": {**LARGE, "model__name": "resnet50", "data__image_size": 64, "ranks": 2,
                                   "backend__threads": 1},
    "inception_v3-small": {"model__name": "inception_v3", "train__steps": 3, "data__batch": 8},
    "alexnet": {**LARGE, "model__name": "alexnet", "data__image_size": 64, "train__lr": 0.01},
    "vgg7-wage": {"model__name": "vgg7", "policy__name": "wage", "policy__bits__weight": 2, "policy__quantize_last": "true",
                  "train__lr": 8, "train__momentum": 0, "train__decay": 0, "train__steps": 4},
}

BATCH = {"policy__activation_range": "batch"}  # the range of the rank's batch, for the trainings named before it was an option
NATIVE = {name: settings if "policy__name" in settings else {**BATCH, **settings} for name, settings in NATIVE.items()}
EXACT = {"ranks": 2, "backend__threads": 1, "train__norm_group": 4, "comm__exchange": "exact"}
NATIVE |= {
    "resnet20-held": {},
    "resnet20-held-storage-int8": {"storage": "int8"},
    "resnet20-held-all-layers": {"policy__quantize_first": "true", "policy__quantize_last": "true"},
    "resnet20-groups": {"train__norm_group": 4},
    "resnet20-exact": EXACT,
    "mobilenet_v2-exact": {**EXACT, "model__name": "mobilenet_v2", "train__steps": 6},
    "resnet50-64-pixels-exact": {**LARGE, **EXACT, "model__name": "resnet50", "data__image_size": 64, "train__norm_group": 2},
    "efficientnet_lite0": {"model__name": "efficientnet_lite0", "train__steps": 4},
    "inception_v3-small-held": {"model__name": "inception_v3", "train__steps": 3, "data__batch": 8},
}

LIBRARY = {
    "fp32": {"policy__name": "fp32"},
    "fp32-2-ranks": {"policy__name": "fp32", "comm__exchange": "fp32", "ranks": 2, "backend__threads": 1},
    "fp32-mobilenet_v2": {"policy__name": "fp32", "model__name": "mobilenet_v2", "train__steps": 6},
    "fp32-inception_v3": {"policy__name": "fp32", "model__name": "inception_v3", "train__steps": 3, "data__batch": 8},
    "dorefa": {"policy__name": "dorefa"},
    "wageubn": {"policy__name": "wageubn"},
    "range_bn": {"policy__name": "range_bn"},
    "psq": {"policy__name": "psq"},
    "dai8": {"policy__name": "dai8"},
    "dai8-2-ranks": {"policy__name": "dai8", "ranks": 2, "backend__threads": 1},
    "fp8": {"policy__name": "fp8", "train__steps": 2},
    "dorefa-alexnet_bn": {"policy__name": "dorefa", "model__name": "alexnet_bn", "train__steps": 6},
}


class Weights(Case):
    def weights(self, name, settings):
        self.train(name, **{**COMMON, **settings})
        return self.result(name)["weights_sha256"]

    def test_stored_digests(self):
        stored = json.loads(STORED.read_text())
        self.assertEqual(set(stored), set(NATIVE), "weights.json and this file name other trainings")
        for name, settings in NATIVE.items():
            with self.subTest(name):
                self.assertEqual(self.weights(name, settings), stored[name])

    def test_earlier_build(self):
        if "OCTET_BEFORE" not in os.environ:
            self.skipTest("OCTET_BEFORE names no earlier build")
        for name, settings in LIBRARY.items():
            with self.subTest(name):
                now = self.weights(name, settings)
                program, harness.OCTET = harness.OCTET, os.environ["OCTET_BEFORE"]
                try:
                    before = self.weights(f"{name}-before", settings)
                finally:
                    harness.OCTET = program
                self.assertEqual(now, before)


class Store(Weights):
    def test_stored_digests(self):
        digests = {name: self.weights(name, settings) for name, settings in NATIVE.items()}
        STORED.write_text(json.dumps(digests, indent=1) + "\n")

    def test_earlier_build(self):
        self.skipTest("only the digests are stored")


if __name__ == "__main__":
    if "--store" in sys.argv:
        sys.argv.remove("--store")
        del Weights
    else:
        del Store
    harness.main()
