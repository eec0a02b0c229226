#!/usr/bin/env python3
"""A detector that begins with the weights of a classification network, part of which is frozen: on any number of ranks,
after an interruption, and in evaluation."""

import json

from harness import OCTET, RECIPE, Case, main, on_ranks, with_settings

CLASSIFIER = {"model.name": "resnet18", "model.classes": 10, "data.samples": 64, "data.batch": 16, "data.workers": 1,
              "train.steps": 2, "backend.threads": 1}
DETECTOR = {"model.name": "retinanet", "model.backbone": "resnet18", "model.neck_channels": 16, "model.head_depth": 1,
            "model.norm": "frozen", "model.freeze_stages": 2, "data.name": "shapes_detection", "data.samples": 32,
            "data.batch": 8, "data.workers": 1, "data.image_size": 64, "train.steps": 4, "train.lr": 1e-3,
            "backend.threads": 1, "comm.exchange": "exact", "train.norm_group": 4}


class Transfer(Case):
    def setUp(self):
        super().setUp()
        self.run_octet("classifier", CLASSIFIER)
        self.backbone = self.weights("classifier")

    def run_octet(self, run, settings, ranks=1, resume=False, code=0):
        job = self.launch([*on_ranks(ranks), OCTET, "train", RECIPE, "--run", self.run_path(run),
                           *with_settings(settings), *(["--resume"] if resume else [])])
        self.expect(job, code)
        return job

    def weights(self, run):
        return self.run_path(run) / "weights.safetensors"

    def detector(self, run, ranks=1, resume=False, **settings):
        chosen = {**DETECTOR, "model.initial_backbone": self.backbone,
                  **{key.replace("__", "."): value for key, value in settings.items()}}
        return self.run_octet(run, chosen, ranks, resume)

    def test_ranks_and_interruption_change_no_bit(self):
        job = self.detector("one")
        self.assertRegex(job.err, r"weights.safetensors: 100 tensors loaded; \d+ new \(.*; \d+ of the file not used \(.*fc.weight")
        one = self.result("one")["weights_sha256"]
        self.detector("two", ranks=2)
        self.assertEqual(self.result("two")["weights_sha256"], one)
        self.detector("resumed", train__steps=2)
        job = self.detector("resumed", resume=True)
        self.assertNotIn("tensors loaded", job.err)
        self.assertEqual(self.result("resumed")["weights_sha256"], one)

    def test_frozen_tensors_are_those_of_the_file(self):
        before = self.tensors(self.backbone)
        for exchange, ranks in ("exact", 1), ("int8", 2), ("fp32", 2):
            self.detector(exchange, ranks, comm__exchange=exchange)
            for name, values in self.tensors(self.weights(exchange)).items():
                own = name.removeprefix("backbone.body.")
                if own == name:
                    continue
                frozen = own.startswith(("conv1.", "bn1.", "layer1.")) or ".bn" in own or ".downsample.1." in own
                self.assertEqual(values == before[own], frozen, f"{name}, exchange {exchange}")

    def test_last_stage_may_be_the_head_of_regions(self):
        settings = {key: value for key, value in DETECTOR.items() if key not in ("model.neck_channels", "model.head_depth")}
        job = self.run_octet("run", {**settings, "model.name": "faster_rcnn_c4", "model.initial_backbone": self.backbone,
                                     "train.steps": 2, "rpn.before_nms": 64, "rpn.after_nms": 16, "rpn.before_nms_test": 64,
                                     "rpn.after_nms_test": 16, "roi.samples": 8})
        self.assertIn("weights.safetensors: 100 tensors loaded", job.err)
        before, after = self.tensors(self.backbone), self.tensors(self.weights("run"))
        head = {name.removeprefix("roi_heads.box_head."): values for name, values in after.items()
                if name.startswith("roi_heads.box_head.layer4.") and ".bn" in name}
        self.assertGreater(len(head), 10)
        self.assertEqual(head, {name: before[name] for name in head})

    def test_detector_can_be_loaded_whole(self):
        self.detector("run")
        job = self.detector("again", train__steps=1, model__initial_backbone="", model__initial_weights=self.weights("run"))
        self.assertRegex(job.err, r"(?m)weights.safetensors: \d+ tensors loaded$")
        settings = {key: DETECTOR[key] for key in DETECTOR if key.startswith(("model", "data", "backend"))}
        self.assertRegex(self.octet("eval", RECIPE, "--weights", self.weights("run"), *with_settings(settings)).out, "AP")

    def test_other_networks_are_refused(self):
        job = self.run_octet("run", {**DETECTOR, "model.backbone": "resnet34", "model.initial_backbone": self.backbone}, code=2)
        self.assertRegex(job.err, r"has no tensor `layer\S+`, which the network needs(?s:.*)fix: .*model.backbone")

    @staticmethod
    def tensors(path):
        """Name -> bytes."""
        content = path.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        return {name: content[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]]
                for name, entry in header.items() if name != "__metadata__"}


if __name__ == "__main__":
    main()
