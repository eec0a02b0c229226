#!/usr/bin/env python3
"""Every setting of the policy, the storage and the exchange trains end to end, and changes the weights."""

import json
import math

from harness import Case, main

SWITCHES = {
    "clip": {"policy__clip__enabled": "false"},
    "lr_scale": {"policy__lr_scale__enabled": "false"},
    "quantize_first": {"policy__quantize_first": "true"},
    "quantize_last": {"policy__quantize_last": "true"},
    "weight_bits": {"policy__bits__weight": 4},
    "activation_bits": {"policy__bits__activation": 4},
    "gradient_bits": {"policy__bits__gradient": 4},
    "all_bits": {"policy__bits__weight": 2, "policy__bits__activation": 2, "policy__bits__gradient": 2},
    "storage_f32": {"storage": "f32"},
    "storage_int8": {"storage": "int8"},
    "mobilenet_v2": {"model__name": "mobilenet_v2"},
    "fp32": {"policy__name": "fp32"},
    "fp32_mobilenet_v2": {"policy__name": "fp32", "model__name": "mobilenet_v2"},
    "nesterov": {"train__nesterov": "true"},
    "adamw": {"train__optimizer": "adamw", "train__lr": 0.001},
    "label_smoothing": {"train__label_smoothing": 0.1},
    "cutmix": {"augment__cutmix": 1},
    "cutmix_label_smoothing": {"augment__cutmix": 1, "train__label_smoothing": 0.1},
    "cutmix_mixup": {"augment__cutmix": 1, "augment__mixup": 0.2},
}
EXCHANGES = {
    "int8": {"comm__exchange": "int8"},
    "fp32": {"comm__exchange": "fp32"},
}


class Switches(Case):
    def trained(self, run, **settings):
        weights = self.weights_of(run, train__steps=5, **settings)
        self.assertTrue(math.isfinite(self.result(run)["loss"]), f"{run}: {self.result(run)}")
        return weights

    def test_each_changes_the_weights(self):
        weights = {"default": self.trained("default")}
        for name, settings in SWITCHES.items():
            with self.subTest(name):
                weights[name] = self.trained(name, **settings)
        self.assertEqual(len(set(weights.values())), 1 + len(SWITCHES), weights)

    def test_adamw_goes_on_where_it_stopped_on_any_ranks(self):
        settings = {"train__optimizer": "adamw", "train__lr": 0.001, "train__schedule": "constant",
                    "comm__exchange": "exact", "train__norm_group": 4}
        whole = self.weights_of("whole", train__steps=6, **settings)
        self.train("parts", train__steps=3, ranks=2, **settings)
        self.assertEqual(self.weights_of("parts", train__steps=6, resume=True, **settings), whole)

    def test_gradients_are_recorded_without_clips_too(self):
        off = {"policy__clip__enabled": "false", "policy__lr_scale__enabled": "false"}
        recorded = self.trained("recorded", policy__clip__record_histograms="true", **off)
        self.assertEqual(self.trained("unobserved", **off), recorded)
        for name in "clips.jsonl", "histograms.jsonl":
            lines = (self.run_path("recorded") / name).read_text().splitlines()
            self.assertEqual({json.loads(line)["step"] for line in lines}, {1, 2, 3, 5}, name)
            self.assertTrue(all(json.loads(line).get("lr_scale", 1) == 1 for line in lines))

    def test_each_exchange_changes_the_weights(self):
        weights = {name: self.trained(name, ranks=2, **settings) for name, settings in EXCHANGES.items()}
        self.assertEqual(len(set(weights.values())), len(EXCHANGES), weights)

    def test_learns(self):
        """The loss falls by a fifth."""
        for policy in "unified_int8", "fp32":
            self.train(policy, policy__name=policy, data__samples=512, train__steps=40)
            losses = [record["loss"] for record in self.metrics(policy) if record["kind"] == "train"]
            self.assertLess(sum(losses[-10:]) / 10, 0.8 * sum(losses[:10]) / 10, policy)


if __name__ == "__main__":
    main()
