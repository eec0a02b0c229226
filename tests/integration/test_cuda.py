#!/usr/bin/env python3
"""The CUDA backend, emulated, in the real program: its weights are the CPU's, alone and over ranks.

environment: OCTET  here the program that is linked with the emulated device, octet_emulated
"""

from harness import Case, main

TINY = {"data__name": "synthetic", "data__image_size": 8, "data__samples": 8, "data__batch": 4, "train__steps": 2,
        "train__epochs": 2}


class Cuda(Case):
    def weights(self, device, **settings):
        run = "-".join(["run", device, *map(str, settings.values())])
        weights = self.weights_of(run, backend__device=device, **TINY, **settings)
        self.assertEqual(self.result(run)["backend"], device)
        return weights

    def test_weights_are_the_cpus(self):
        self.assertEqual(self.weights("cpu"), self.weights("cuda"))

    def test_ranks_exchange_what_the_device_computed(self):
        for exchange in "int8", "fp32":
            settings = {"ranks": 2, "comm__exchange": exchange}
            self.assertEqual(self.weights("cpu", **settings), self.weights("cuda", **settings))


if __name__ == "__main__":
    main()
