#!/usr/bin/env python3
"""With the exact exchange the weights are a function of seed, data and recipe alone, on any number of ranks, also when the
number changes. With held ranges an evaluation does not depend on the batch or the ranks."""

import random

from harness import RECIPE, SEED, Case, main
from test_determinism import instruction_sets

EXACT = {"comm__exchange": "exact", "train__norm_group": 8, "train__steps": 8}  # 32 images: on 1, 2 or 4 ranks
FASTER_RCNN = {"model__name": "faster_rcnn", "model__backbone": "resnet18", "model__neck_channels": 16, "model__head_channels": 32,
               "model__anchor_sizes": "[16, 32, 64, 96]", "data__name": "shapes_detection", "data__image_size": 64, "rpn__before_nms": 64,
               "rpn__after_nms": 32, "rpn__samples": 64, "roi__samples": 16, "train__lr": 0.01}
SMALL_NETWORKS = {"mobilenet_v2": {"model__name": "mobilenet_v2", "train__steps": 3},
                  "alexnet": {"model__name": "alexnet", "data__name": "synthetic", "data__image_size": 64, "train__lr": 0.01, "train__steps": 3},
                  "all layers as int8": {"policy__quantize_first": "true", "policy__quantize_last": "true"},
                  "int8 storage": {"storage": "int8"},
                  "faster_rcnn": {**FASTER_RCNN, "train__steps": 3}}


class Ranks(Case):
    def exact(self, name, **settings):
        return self.weights_of(name, **{**EXACT, **settings})

    def test_ranks_threads_and_instruction_sets_agree(self):
        one = self.exact("one")
        for ranks in 2, 4:
            self.assertEqual(self.exact(f"ranks{ranks}", ranks=ranks), one)
        self.assertEqual(self.exact("threads", backend__threads=2), one)
        for overlap in "false", "true":
            self.assertEqual(self.exact(f"overlap-{overlap}", ranks=2, comm__overlap=overlap, comm__bucket_mb=0.01), one)
        for isa in instruction_sets():
            if isa != "scalar":  # which is slow; test_determinism.py compares it
                self.assertEqual(self.exact(isa, ranks=2, backend__isa=isa), one)

    def test_a_run_directory_with_a_line_break(self):
        job = self.train("two\nlines", ranks=2, train__steps=1)
        self.assertNotIn("cannot read", job.err)

    def test_parts_do_not_change_weights(self):
        """A batch that is computed part by part, with the memory of one."""
        one, four = self.exact("one part"), self.exact("four parts", train__accumulate=4)
        self.assertEqual(one, four)
        self.assertEqual(self.exact("two ranks", ranks=2, train__accumulate=2), one)
        arenas = [self.result(run)["arena_bytes"] for run in ("one part", "four parts")]
        self.assertLess(arenas[1], 0.3 * arenas[0])
        settings = {**SMALL_NETWORKS["faster_rcnn"], "train__ema": 0.9}
        self.assertEqual(self.exact("detector", **settings), self.exact("detector in parts", train__accumulate=2, **settings))
        self.train("run", **{**EXACT, "train__steps": 3})
        self.train("run", resume=True, train__accumulate=4, **EXACT)
        self.assertEqual(self.result("run")["weights_sha256"], one)

    def test_parts_of_other_exchanges(self):
        """Gradients of real numbers add up to those of the batch, up to their rounding."""
        losses = []
        for parts in 1, 4:
            self.train(f"{parts} parts", train__accumulate=parts, train__steps=1, policy__name="fp32", train__norm_group=8)
            losses.append(self.result(f"{parts} parts")["loss"])
        self.assertAlmostEqual(*losses, delta=1e-4 * losses[0])

    def test_networks_and_storages_agree(self):
        for name, settings in SMALL_NETWORKS.items():
            with self.subTest(name):
                one = self.exact(f"{name} 1", **settings)
                self.assertEqual(self.exact(f"{name} 4", ranks=4, **settings), one)

    def test_other_exchanges_depend_on_ranks(self):
        """So the equality above is the work of the exact exchange."""
        for exchange in "fp32", "int8":
            one, two = (self.exact(f"{exchange} {ranks}", comm__exchange=exchange, ranks=ranks) for ranks in (1, 2))
            self.assertNotEqual(one, two)
        whole = {"train__norm_group": 0, "comm__exchange": "fp32"}
        self.assertNotEqual(self.exact("whole batch", **whole), self.exact("groups", comm__exchange="fp32"))

    def test_resume_on_other_ranks(self):
        draw = random.Random(SEED)
        stops = sorted(draw.sample(range(1, 12), 3))
        expected = self.exact("straight", train__steps=12)
        for start, (ranks, steps) in enumerate(zip((1, 4, 2, 1), (*stops, 12))):
            self.train("changing", ranks=ranks, resume=start > 0, **{**EXACT, "train__steps": steps})
        result = self.result("changing")
        self.assertEqual(result["weights_sha256"], expected, f"SEED={SEED}, changed after steps {stops}")
        history = ", ".join(f"{ranks} from step {step}" for ranks, step in zip((1, 4, 2, 1), (0, *stops)))
        self.assertEqual(result["rank_history"], history)

    def test_resume_on_other_ranks_warns_elsewhere(self):
        self.train("run", train__steps=2)
        job = self.train("run", ranks=2, resume=True, train__steps=4)
        self.assertIn("comm.exchange: exact", job.err)
        self.assertEqual(self.result("run")["rank_history"], "1 from step 0, 2 from step 2")

    def test_evaluation_is_the_same_for_any_batch_and_ranks(self):
        self.train("run", train__steps=4)
        weights = self.run_path("run") / "weights.safetensors"
        printed = set()
        for ranks, batch in (1, 1), (1, 37), (1, 256), (2, 256), (3, 36), (3, 111):
            job = self.octet("eval", RECIPE, "--weights", weights, "--set", "data.samples=256", "--set", f"data.batch={batch}", ranks=ranks)
            printed.add(job.out)
        self.assertEqual(len(printed), 1, printed)

    def test_fitting_ranks(self):
        """What an elastic job asks before it starts."""
        for settings, fitting in (([], [1, 2, 2, 4, 4, 4, 4, 8]), (["train.norm_group=8"], [1, 2, 2, 4, 4, 4, 4, 4]),
                                  (["train.norm_group=8", "train.accumulate=2"], [1, 2, 2, 2, 2, 2, 2, 2])):
            words = [word for setting in ["data.batch=32", *settings] for word in ("--set", setting)]
            printed = [self.octet("train", RECIPE, *words, "--fitting-ranks", most).out.strip() for most in range(1, 9)]
            self.assertEqual(printed, [str(ranks) for ranks in fitting])

    def test_mistakes(self):
        for settings, ranks, words in (
                ({**EXACT, "train__norm_group": 12}, 1, ("norm_group 12", "1, 2, 4, 8, 16, 32")),
                (EXACT, 8, ("norm_group 8", "1, 2, 4 ranks")),
                ({"train__accumulate": 3}, 1, ("3 equal parts", "1, 2, 4, 8, 16, 32")),
                ({"train__accumulate": 4, "policy__name": "dorefa"}, 1, ("dorefa", "train.accumulate: 1")),
                ({**EXACT, "train__norm_group": 0}, 1, ("train.norm_group",)),
                ({**EXACT, "policy__clip__enabled": "false"}, 1, ("policy.clip.enabled",)),
                ({**EXACT, "policy__activation_range": "batch"}, 1, ("policy.activation_range: held",)),
                ({**EXACT, "policy__name": "dorefa"}, 1, ("dorefa", "unified_int8")),
                ({"train__norm_group": 8, "policy__name": "wageubn"}, 1, ("wageubn", "train.norm_group: 0")),
                ({"train__norm_group": 8, "policy__activation_range": "batch"}, 1, ("policy.activation_range: held",))):
            with self.subTest(settings):
                job = self.train("refused", code=2, ranks=ranks, **settings)
                for word in words:
                    self.assertIn(word, job.err)


if __name__ == "__main__":
    main()
