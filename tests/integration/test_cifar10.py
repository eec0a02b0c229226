#!/usr/bin/env python3
"""INT8 training on the real CIFAR-10, two ranks: it learns. Needs OCTET_CIFAR10, the folder of data_batch_1.bin ..."""

import os
import unittest

from harness import ROOT, Case, main

DATA = os.environ.get("OCTET_CIFAR10", "")


@unittest.skipUnless(DATA, "set OCTET_CIFAR10 to the folder of CIFAR-10 to test with it")
class Cifar10(Case):
    def test_int8_learns(self):
        """After 100 of 11,700 steps the recipe is at 30 % or more; guessing gives 10 %."""
        for policy in "unified_int8", "fp32":
            steps = 100 if policy == "unified_int8" else 20
            recipe = ROOT / f"configs/cifar10_resnet20_{policy}.yaml"
            settings = [f"--set=data.root={DATA}", f"--set=train.steps={steps}", "--set=train.warmup_epochs=0"]
            job = self.octet("train", recipe, "--run", self.run_path(policy), *settings, ranks=2)
            top1 = self.result(policy)["top1"]
            print(f"{policy}: test top-1 {100 * top1:.1f} % after {steps} steps", flush=True)
            self.assertGreater(top1, 0.25 if policy == "unified_int8" else 0.08, job)


if __name__ == "__main__":
    main()
