#!/usr/bin/env python3
"""Times one training step of PyTorch on the CPU: forward, loss, backward, SGD with momentum, as octet's step. Prints one JSON line.

usage: pytorch_step.py NETWORK [--batch N] [--size PIXELS] [--precision fp32|bf16|qat] [--threads N] [--steps N] [--warmup N]

Data are made once, outside the clock, in channels_last, PyTorch's faster layout on CPUs. bf16 is autocast: convolutions and the
last layer in bf16, weights and norm in fp32. qat is fp32 with PyTorch's fake quantization for x86 (FX graph mode): what
quantization-aware training computes before its network is converted to int8.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

from detectors import DETECTORS, targets
from networks import NETWORKS, SameConv


def memory(field):
    """Bytes of this process as Linux counts them: VmRSS is resident now, VmHWM the most that ever was."""
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise SystemExit(f"pytorch_step.py: /proc/self/status has no {field}; fix: mount /proc")


def with_fixed_padding(model, images):
    """Padding that depends on the image's size cannot be traced: each SameConv becomes that of these images."""
    sizes = {}
    same = [(name, module) for name, module in model.named_modules() if isinstance(module, SameConv)]
    hooks = [module.register_forward_pre_hook(lambda _, inputs, name=name: sizes.update({name: inputs[0].shape[2:]}))
             for name, module in same]
    model.eval()(images[:1])
    for hook in hooks:
        hook.remove()
    for name, module in same:
        conv = torch.nn.Conv2d(module.in_channels, module.out_channels, module.kernel_size, module.stride,
                               groups=module.groups, bias=False)
        model.set_submodule(name, torch.nn.Sequential(torch.nn.ZeroPad2d(module.padding_of(sizes[name])), conv))
    return model


def with_fake_quantization(model, images):
    from torch.ao.quantization import get_default_qat_qconfig_mapping
    from torch.ao.quantization.quantize_fx import prepare_qat_fx

    return prepare_qat_fx(with_fixed_padding(model, images).train(), get_default_qat_qconfig_mapping("x86"), (images,))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("network", choices=sorted([*NETWORKS, *DETECTORS]))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, help="image height and width (default: the network's own)")
    parser.add_argument("--precision", choices=["fp32", "bf16", "qat"], default="fp32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    options = parser.parse_args()

    after_import = memory("VmRSS")
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    if options.network in DETECTORS:
        make, size, classes = DETECTORS[options.network]
        height, width = (options.size, options.size) if options.size else size
        model = make(classes, height, width)
    else:
        make, size, classes = NETWORKS[options.network]
        height = width = options.size or size
        model = make(classes)
    images = torch.randn(options.batch, 3, height, width).to(memory_format=torch.channels_last)
    if options.precision == "qat":
        model = with_fake_quantization(model, images)
    model = model.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    labels = torch.randint(classes, (options.batch,))
    objects = targets(options.batch, classes, height, width) if options.network in DETECTORS else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            answers = model(list(images), objects) if objects else model(images)
        loss = sum(answers.values()) if objects else F.cross_entropy(answers.float(), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(options.warmup):
        step()
    seconds = []
    for _ in range(options.steps):
        start = time.perf_counter()
        step().item()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(json.dumps({
        "program": "pytorch",
        "version": torch.__version__,
        "network": options.network,
        "precision": options.precision,
        "batch": options.batch,
        "image_size": height if height == width else [height, width],
        "threads": options.threads,
        "steps": options.steps,
        "step_ms": round(1000 * median, 3),
        "images_per_second": round(options.batch / median, 2),
        "peak_resident_bytes": memory("VmHWM"),
        "resident_bytes_after_import": after_import,
    }))


if __name__ == "__main__":
    main()
