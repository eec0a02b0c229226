#!/usr/bin/env python3
"""The rival policies and the larger networks train. A network that does not fit a policy is refused with a reason."""

import math

from harness import Case, main

# Share of the first third of the losses that the last third may be at most, and settings. DoReFa begins slowly: its activations are clipped to [0, 1].
# FP8's sums are simulated one by one.
RIVALS = {
    "dorefa": (0.95, {"train__lr": 0.05, "train__steps": 72}),
    "wageubn": (0.95, {"train__decay": 0}),
    "range_bn": (0.85, {}),
    "psq": (0.85, {}),
    "dai8": (0.85, {}),
    "fp8": (0.97, {"data__batch": 16, "train__steps": 24, "data__samples": 128}),
}


class Rivals(Case):
    def test_loss_falls(self):
        for policy, (share, settings) in RIVALS.items():
            with self.subTest(policy):
                chosen = {"data__samples": 1024, "train__lr": 0.02, "train__steps": 48, **settings}
                self.train(policy, policy__name=policy, **chosen)
                self.expect_falling_loss(policy, share)

    def test_clips_of_errors_are_resumed_and_equal_on_ranks(self):
        """DAI8 keeps clips between steps: they are in checkpoints, and not in the file of weights."""
        for ranks in 1, 2:
            name = f"dai8-{ranks}"
            whole = self.weights_of(f"whole-{name}", policy__name="dai8", ranks=ranks)
            self.train(name, policy__name="dai8", train__steps=6, checkpoint__every_steps=3, ranks=ranks)
            resumed = self.start(name, resume=True, policy__name="dai8", checkpoint__every_steps=3, ranks=ranks)
            self.expect(resumed, 0)
            self.assertIn("step 6", resumed.err + resumed.out)
            self.assertEqual(self.result(name)["weights_sha256"], whole)
        self.assertNotIn(b"error_clips", (self.run_path("dai8-1") / "weights.safetensors").read_bytes())
        self.assertIn(b"error_clips", self.checkpoint_path("dai8-1", 15).read_bytes())

    def test_networks_train(self):
        for network in "alexnet", "inception_v3":
            with self.subTest(network):
                self.train(network, model__name=network, train__lr=0.01, train__steps=2, data__samples=32, data__batch=8)
                self.assertTrue(math.isfinite(self.result(network)["loss"]))

    def test_refusals(self):
        for word, settings in {"conv1": {"policy__name": "wage", "policy__bits__weight": 2, "train__momentum": 0, "train__decay": 0},
                               "8/8/8": {"policy__name": "fp8", "policy__bits__gradient": 4},
                               "64": {"model__name": "alexnet", "data__name": "synthetic", "data__image_size": 100}}.items():
            with self.subTest(word):
                self.assertIn(word, self.train(f"refused-{word[0]}", code=2, **settings).err)

    def expect_falling_loss(self, run, share):
        losses = [record["loss"] for record in self.metrics(run) if record["kind"] == "train"]
        third = len(losses) // 3
        self.assertLess(sum(losses[-third:]), share * sum(losses[:third]), (run, losses))


if __name__ == "__main__":
    main()
