#!/usr/bin/env python3
"""Detectors train on images of shapes. RetinaNet's loss falls; tests/graph has that of the others. A resumed run has the
weights of a straight one, and with the exact exchange so have runs on other numbers of ranks. An evaluation depends
neither on the batch nor on the ranks."""

import json
import struct

from harness import ROOT, Case, main, with_settings

RECIPES = {name: str(ROOT / f"configs/shapes_detection_{name}_unified_int8.yaml") for name in ("retinanet", "faster_rcnn", "rfcn")}
NETWORKS = {"retinanet": {"model.neck_channels": 16, "model.head_depth": 1},
            "faster_rcnn": {"model.neck_channels": 16, "model.head_channels": 32},
            "rfcn": {"model.head_channels": 32, "data.short_side": 64, "data.long_side": 64}}
SMALL = {"data.samples": 64, "data.batch": 8, "data.image_size": 64, "train.norm_group": 4, "comm.exchange": "exact",
         "train.steps": 4, "train.warmup_epochs": 0, "backend.threads": 1}


class Detectors(Case):
    def detector(self, name, run, ranks=1, resume=False, **settings):
        chosen = {**SMALL, **NETWORKS[name], **{key.replace("__", "."): value for key, value in settings.items()}}
        self.octet("train", RECIPES[name], "--run", self.run_path(run), *with_settings(chosen),
                   *(["--resume"] if resume else []), ranks=ranks)
        return self.result(run)["weights_sha256"]

    def test_ranks_threads_and_resumes_agree(self):
        for name in RECIPES:
            with self.subTest(name):
                one = self.detector(name, f"{name}-one")
                self.assertEqual(self.detector(name, f"{name}-two", ranks=2, backend__threads=2), one)
                self.detector(name, f"{name}-stopped", train__steps=2)
                self.assertEqual(self.detector(name, f"{name}-stopped", ranks=2, resume=True), one)

    def test_mosaics_train_the_same_on_any_ranks(self):
        plain = self.detector("retinanet", "plain")
        one = self.detector("retinanet", "one", augment__mosaic=0.5)
        self.assertEqual(self.detector("retinanet", "two", ranks=2, augment__mosaic=0.5, data__workers=3), one)
        self.assertNotEqual(one, plain)
        self.assertEqual(self.detector("retinanet", "ended", augment__mosaic=0.5, augment__mosaic_until=0), plain)

    def test_loss_falls(self):
        self.detector("retinanet", "retinanet", data__samples=256, train__steps=64, train__log_every_steps=1,
                      train__norm_group=0, comm__exchange="int8")
        losses = [record["loss"] for record in self.metrics("retinanet") if record["kind"] == "train"]
        self.assertLess(sum(losses[-8:]), 0.8 * sum(losses[:8]), losses)
        result = self.result("retinanet")
        for figure in "AP", "AP50", "AR100":
            self.assertGreaterEqual(result[figure], 0)

    def test_evaluation_is_the_same_for_any_batch_and_ranks(self):
        for name, recipe in RECIPES.items():
            with self.subTest(name):
                self.detector(name, name, train__steps=8)
                weights = self.run_path(name) / "weights.safetensors"
                printed = set()
                for ranks, batch in (1, 1), (1, 7), (3, 6):
                    settings = {**SMALL, **NETWORKS[name], "data.batch": batch, "train.norm_group": 0,
                                "comm.exchange": "int8", "detect.score": 0.001}
                    job = self.octet("eval", recipe, "--weights", weights, "--json", *with_settings(settings), ranks=ranks)
                    printed.add(job.out)
                self.assertEqual(len(printed), 1, printed)

    def test_integers(self):
        """Their detections are the same on any number of ranks, and those of `octet predict` have the same form."""
        self.detector("faster_rcnn", "run")
        run = self.run_path("run")
        judged = [json.loads(self.octet("eval", run, "--integer", "--json", "--set", "detect.score=0.001", ranks=ranks).out)
                  for ranks in (1, 2)]
        self.assertEqual(judged[0], judged[1])
        self.assertEqual(list(judged[0]["by_class"]), list(judged[0]["training"]["by_class"]))
        self.octet("make", "shapes", self.directory / "pictures", "--samples", 2)
        job = self.octet("predict", run, self.directory / "pictures", "--score", 0.001, "--json", "-", "--integer")
        self.assertEqual(set(json.loads(job.out.splitlines()[0])), {"image_id", "file_name", "category_id", "class", "bbox", "score"})
        self.assertEqual(job.err, "")

        older = self.directory / "older.safetensors"  # as octet wrote them before it held all ranges
        self.write_without_ranges(run / "weights.safetensors", older, "fc7")
        words = ["predict", older, self.directory / "pictures", "--score", 0.001, "--json", "-"]
        job = self.octet(*words)
        self.assertIn("the training's kernels answer, and not the integers that would be deployed: the range of", job.err)
        self.assertIn("octet calibrate", job.err)
        self.assertEqual(job.out, self.octet(*words, "--training").out)
        self.assertIn("the range of", self.octet(*words, "--integer", code=2).err)

    @staticmethod
    def write_without_ranges(weights, to, layer):
        content = weights.read_bytes()
        end = 8 + struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:end])
        ranges = json.loads(header["__metadata__"]["activation_ranges"])
        kept = {name: text for name, text in ranges.items() if layer not in name}
        assert len(kept) < len(ranges)
        header["__metadata__"]["activation_ranges"] = json.dumps(kept)
        header["__metadata__"].pop("sha256")
        text = json.dumps(header).encode()
        to.write_bytes(struct.pack("<Q", len(text)) + text + content[end:])


if __name__ == "__main__":
    main()
