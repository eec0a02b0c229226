#!/usr/bin/env python3
"""Every switch of the policy, the storage and the exchange trains end to end, and changes what is trained."""

import math

from harness import Case, main

SWITCHES = {
    "clip": {"policy__clip__enabled": "false"},
    "lr_scale": {"policy__lr_scale__enabled": "false"},
    "quantize_first": {"policy__quantize_first": "true"},
    "quantize_last": {"policy__quantize_last": "true"},
    "grad_weight": {"policy__grad_weight": "real"},
    "per_channel_weights": {"policy__per_channel_weights": "true"},
    "weight_bits": {"policy__bits__weight": 4},
    "activation_bits": {"policy__bits__activation": 4},
    "gradient_bits": {"policy__bits__gradient": 4},
    "all_bits": {"policy__bits__weight": 2, "policy__bits__activation": 2, "policy__bits__gradient": 2},
    "storage": {"storage": "f32"},
    "mobilenet_v2": {"model__name": "mobilenet_v2"},
    "fp32": {"policy__name": "fp32"},
    "fp32_mobilenet_v2": {"policy__name": "fp32", "model__name": "mobilenet_v2"},
    "nesterov": {"train__nesterov": "true"},
    "label_smoothing": {"train__label_smoothing": 0.1},
}
EXCHANGES = {
    "int8": {"comm__exchange": "int8"},
    "fp32": {"comm__exchange": "fp32"},
    "error_feedback": {"comm__exchange": "int8", "comm__error_feedback": "true"},
}
STEPS = {"fp8": 24}  # its sums are simulated one by one


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

    def test_each_exchange_changes_the_weights(self):
        weights = {name: self.trained(name, ranks=2, **settings) for name, settings in EXCHANGES.items()}
        self.assertEqual(len(set(weights.values())), len(EXCHANGES), weights)

    def test_learns(self):
        """The loss falls by a fifth."""
        for policy in "unified_int8", "fp32", "dorefa", "wageubn", "range_bn", "fp8":
            with self.subTest(policy):
                self.train(policy, policy__name=policy, data__samples=1024, train__lr=0.05, train__steps=STEPS.get(policy, 64),
                           data__batch=BATCH.get(policy, 32))
                self.expect_falling_loss(policy, 0.8)

    def test_wage_learns(self):
        """On a network without norms, with its own update; the first steps of so large a learning rate change little."""
        self.train("wage", policy__name="wage", policy__bits__weight=2, model__name="alexnet", model__dropout=0, train__lr=8,
                   train__momentum=0, train__decay=0, data__samples=1024, train__steps=40, train__schedule="constant")
        self.expect_falling_loss("wage", 0.97)

    def test_networks_train(self):
        for network in "alexnet", "alexnet_bn", "inception_v3", "vgg7":
            with self.subTest(network):
                self.train(network, model__name=network, train__lr=0.01, train__steps=2, data__samples=32, data__batch=8)
                self.assertTrue(math.isfinite(self.result(network)["loss"]))

    def test_refusals(self):
        """Each names the layer or the key."""
        for word, settings in {"conv1": {"policy__name": "wage", "policy__bits__weight": 2},
                               "8/8/8": {"policy__name": "fp8", "policy__bits__gradient": 4},
                               "64": {"model__name": "alexnet", "data__name": "synthetic", "data__image_size": 100}}.items():
            with self.subTest(word):
                self.assertIn(word, self.train("refused", code=2, **settings).err)

    def expect_falling_loss(self, run, share):
        losses = [record["loss"] for record in self.metrics(run) if record["kind"] == "train"]
        self.assertLess(sum(losses[-10:]) / 10, share * sum(losses[:10]) / 10, run)


if __name__ == "__main__":
    main()
