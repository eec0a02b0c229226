#!/usr/bin/env python3
"""The same seed gives the same weights, bit for bit, on every instruction set and any number of threads."""

import subprocess

from harness import OCTET, Case, main


def instruction_sets():
    version = subprocess.run([OCTET, "--version"], capture_output=True, text=True, check=True).stdout
    return version.partition("instruction sets:")[2].partition("\n")[0].split()


SHORT = {"data__samples": 64, "data__batch": 8, "train__steps": 20}  # plain C++ is slow


class Determinism(Case):
    def test_same_seed_same_weights(self):
        for ranks in 1, 2:
            first = self.weights_of(f"first{ranks}", ranks=ranks)
            self.assertRegex(first, "^[0-9a-f]{64}$")
            self.assertEqual(first, self.weights_of(f"second{ranks}", ranks=ranks))

    def test_other_seed_other_weights(self):
        self.assertNotEqual(self.weights_of("one", seed=1), self.weights_of("two", seed=2))

    def test_threads_do_not_change_weights(self):
        one = self.weights_of("one", backend__threads=1)
        self.assertEqual(one, self.weights_of("two", backend__threads=2))

    def test_fp32_repeats(self):
        """With the same number of threads: sums of oneDNN depend on it."""
        one = self.weights_of("one", policy__name="fp32", train__steps=4)
        self.assertEqual(one, self.weights_of("two", policy__name="fp32", train__steps=4))

    def test_decode_workers_do_not_change_weights(self):
        self.assertEqual(self.weights_of("one", data__workers=1), self.weights_of("three", data__workers=3))

    def test_instruction_sets_agree(self):
        isas = instruction_sets()
        self.assertIn("scalar", isas)
        for ranks in 1, 2:
            weights = {}
            for isa in isas:
                run = f"{isa}{ranks}"
                weights[isa] = self.weights_of(run, ranks=ranks, backend__isa=isa, **SHORT)
                self.assertEqual(self.result(run)["isa"], isa)
            self.assertEqual(len(set(weights.values())), 1, weights)


if __name__ == "__main__":
    main()
