#!/usr/bin/env python3
"""The CUDA backend, emulated, in the real program: its weights equal the CPU's, on one rank and on two.

environment: OCTET  here the program that is linked with the emulated device, octet_emulated
             NCCL   OFF where it is built without NCCL (default: ON)
"""

import os

from harness import Case, main

TINY = {"data__name": "synthetic", "data__image_size": 8, "data__samples": 8, "data__batch": 4, "train__steps": 2,
        "train__epochs": 2}

NCCL = os.environ.get("NCCL", "ON") == "ON"


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
            wanted = self.weights("cpu", **settings)
            self.assertEqual(wanted, self.weights("cuda", comm__transport="mpi", **settings))
            if NCCL:
                self.assertEqual(wanted, self.weights("cuda", comm__transport="nccl", **settings))

    def test_the_exact_exchange_has_one_result(self):
        exact = {"comm__exchange": "exact", "train__norm_group": 2}
        wanted = self.weights("cpu", **exact)
        self.assertEqual(wanted, self.weights("cuda", **exact))
        for transport in ("mpi", "nccl") if NCCL else ("mpi",):
            self.assertEqual(wanted, self.weights("cuda", ranks=2, comm__transport=transport, **exact))

    def test_small_buckets_between_devices_are_the_cpus(self):
        settings = {"ranks": 2, "comm__bucket_mb": 0.1}
        self.assertEqual(self.weights("cpu", **settings), self.weights("cuda", **settings))

    def test_ranks_may_share_a_device(self):
        settings = {"ranks": 2, "comm__exchange": "int8"}
        self.assertEqual(self.weights("cpu", **settings), self.weights("cuda", backend__share_gpu="true", **settings))
        job = self.train("shared", code=2, backend__device="cuda", backend__share_gpu="true", comm__transport="nccl", **TINY)
        self.assertIn("`backend.share_gpu` lets ranks share one", job.err)

    def test_policies_of_the_processor_are_refused_before_data_is_read(self):
        nowhere = {**TINY, "data__name": "cifar10", "data__root": "nowhere"}
        job = self.train("host", code=2, policy__name="dorefa", backend__device="cuda", **nowhere)
        self.assertIn("policy dorefa computes on the processor", job.err)

    def test_nccl_where_it_cannot_be_is_a_mistake(self):
        job = self.train("cpu", code=2, comm__transport="nccl", **TINY)
        self.assertIn("`comm.transport` nccl is for GPUs", job.err)
        if not NCCL:
            job = self.train("absent", code=2, ranks=2, backend__device="cuda", comm__transport="nccl", **TINY)
            self.assertIn("octet was built without NCCL", job.err)


if __name__ == "__main__":
    main()
