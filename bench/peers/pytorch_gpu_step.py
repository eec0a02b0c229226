#!/usr/bin/env python3
"""Times one training step of PyTorch on a GPU: forward, loss, backward, SGD with momentum. Prints one JSON line.

usage: pytorch_gpu_step.py NETWORK [--batch N] [--precision fp32|tf32|bf16] [--compile] [--steps N]

Data are made once, outside the clock, in channels_last. bf16 is autocast with fp32 weights.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

from networks import NETWORKS


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    options = parser.parse_args()

    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    make, size, classes = NETWORKS[options.network]
    model = make(classes).train().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(options.batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (options.batch,), device="cuda")
    network = torch.compile(model) if options.compile else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            logits = network(images)
        loss = F.cross_entropy(logits.float(), labels)
        loss.backward()
        optimizer.step()

    for _ in range(options.warmup):
        step()
    seconds = []
    for _ in range(options.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(json.dumps({
        "program": "pytorch",
        "version": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "network": options.network,
        "precision": options.precision,
        "compiled": options.compile,
        "batch": options.batch,
        "steps": options.steps,
        "step_ms": round(1000 * median, 3),
        "images_per_second": round(options.batch / median, 1),
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }))


if __name__ == "__main__":
    main()
