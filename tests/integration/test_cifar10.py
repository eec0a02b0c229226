#!/usr/bin/env python3
"""INT8 training on the real CIFAR-10, two ranks: it learns. Needs OCTET_CIFAR10, the folder of data_batch_1.bin ..."""

import os
import unittest

from harness import ROOT, Case, main

DATA = os.environ.get("OCTET_CIFAR10", "")


@unittest.skipUnless(DATA, "set OCTET_CIFAR10 to the folder of CIFAR-10 to test with it")
class Cifar10(Case):
    def test_int8_learns(self):
        """After 100 of 11,700 steps the recipe is at about 30 %; guessing gives 10 %."""
        recipe = ROOT / "configs/cifar10_resnet20_unified_int8.yaml"
        settings = [f"--set=data.root={DATA}", "--set=train.steps=100", "--set=train.warmup_epochs=0"]
        job = self.octet("train", recipe, "--run", self.run_path("int8"), *settings, ranks=2)
        top1 = self.result("int8")["top1"]
        print(f"test top-1 {100 * top1:.1f} %", flush=True)
        self.assertGreater(top1, 0.25, job)


if __name__ == "__main__":
    main()
