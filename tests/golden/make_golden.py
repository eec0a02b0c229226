#!/usr/bin/env python3
"""Writes tests/golden/<network>.json: one training step of PyTorch in double precision, the oracle of octet's networks.

usage: python3 tests/golden/make_golden.py [NETWORK...]        (needs torch; see bench/peers/README.md)

Nothing large is stored, because weights and images come from a formula that any program can repeat exactly
(tests/golden/golden.h does), all integers modulo 2^32:

    x = i + salt * 0x9E3779B9 + 12345;  x ^= x >> 16;  x *= 0x85EBCA6B;  x ^= x >> 13;  x *= 0xC2B2AE35;  x ^= x >> 16
    value(i, salt) = (x >> 8) / 2^24 - 0.5                                          in [-0.5, 0.5), exact in float

i is the index in PyTorch's order (OIHW weights, NCHW images); salt is the position of the parameter in `parameters`,
`image_salt` for the images. Rounded to float where the products are not exact:

    convolution and linear weights   float(2 * sqrt(6 / fan_in)) * value    (fan_in = I * H * W; one float product)
    norm weight (gamma)              1 + value / 4
    norm bias (beta)                 value / 4 + norm_bias_shift    (4 for InceptionV3 and ResNet-50, so that fewer of their many activations
                                     lie near the kink of ReLU; 3 for EfficientNet, midway between the kinks of ReLU6)
    linear bias                      value / 4
    images                           4 * value
    label of sample n                (7 n + 3) mod classes

One step: training-mode batch norm (momentum 0.1; epsilon 1e-5, 1e-3 in InceptionV3 and EfficientNet), mean cross entropy with `label_smoothing`, backward, SGD with
`learning_rate`, `momentum`, `decay` (on every parameter). The samples of a tensor with n elements are the elements
(k * 7919) mod n, k = 0, 1, ... min(n, samples) - 1.

float_deviation tells how far PyTorch's own float run is from these numbers; of a gradient g: |difference| / (|g| + 1e-3 G),
G the largest gradient norm of any parameter (shift-invariant parameters have a gradient of exactly zero). Rounding can carry an
activation across a kink of ReLU, which changes a gradient by up to a few percent; image_salt and the sizes were chosen so that
neither float nor three relative perturbations by 1e-7 of all weights and images do so.
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench" / "peers"))
from networks import NETWORKS  # noqa: E402

CLASSES = 10
LEARNING_RATE, MOMENTUM, DECAY = 0.1, 0.9, 1e-4
CASES = [  # network, batch, image size, image salt, label smoothing, samples of a tensor, added to norm biases
    ("resnet20", 8, 32, 1004, 0.0, 64, 0),
    ("mobilenet_v2_cifar", 4, 16, 1014, 0.0, 24, 0),
    ("efficientnet_lite0_cifar_no_dropout", 4, 20, 1006, 0.0, 12, 3),
    ("efficientnet_lite0_no_dropout", 4, 80, 1006, 0.1, 6, 3),
    ("resnet18", 4, 64, 1004, 0.1, 48, 0),
    ("resnet50", 4, 64, 1005, 0.0, 6, 4),
    ("alexnet_no_dropout", 2, 224, 1004, 0.0, 32, 0),
    ("alexnet_bn_cifar", 8, 32, 1004, 0.0, 32, 0),
    ("inception_v3_cifar_no_dropout", 8, 16, 1, 0.0, 8, 4),
    ("inception_v3_no_dropout", 3, 299, 4, 0.1, 6, 4),
]
AUXILIARY_WEIGHT = 0.4


def value(count, salt):
    """(count) float32: the formula of the module's docstring for i = 0 ... count - 1."""
    x = np.arange(count, dtype=np.uint32) + np.uint32((salt * 0x9E3779B9 + 12345) % 2**32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return (x >> np.uint32(8)).astype(np.float32) / np.float32(2**24) - np.float32(0.5)


def initial(module, name, parameter, salt, bias_shift):
    v = value(parameter.numel(), salt)
    if name == "weight" and not isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
        fan_in = parameter[0].numel()
        v = np.float32(2 * math.sqrt(6 / fan_in)) * v
    elif name == "weight":
        v = np.float32(1) + v / np.float32(4)
    else:
        v = v / np.float32(4)
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            v = np.float32(bias_shift) + v
    return torch.from_numpy(v.reshape(parameter.shape))


def loss_of(output, labels, smoothing):
    """Returns the loss and the network's logits; auxiliary logits count AUXILIARY_WEIGHT."""
    heads = output if isinstance(output, tuple) else (output,)
    losses = [F.cross_entropy(logits, labels, label_smoothing=smoothing) for logits in heads]
    return sum((AUXILIARY_WEIGHT * loss for loss in losses[1:]), losses[0]), heads[0]


def run_step(network, batch, size, salt_of_images, smoothing, bias_shift, dtype):
    """Returns (model, its buffers after one forward pass, logits, loss, loss after the update); p.grad: the gradients."""
    model = NETWORKS[network][0](CLASSES).train()
    with torch.no_grad():
        for salt, (name, parameter) in enumerate(model.named_parameters()):
            owner, _, leaf = name.rpartition(".")
            parameter.copy_(initial(model.get_submodule(owner), leaf, parameter, salt, bias_shift))
    model = model.to(dtype)
    pixels = np.float32(4) * value(batch * 3 * size * size, salt_of_images)
    images = torch.from_numpy(pixels).reshape(batch, 3, size, size).to(dtype)
    labels = torch.tensor([(7 * n + 3) % CLASSES for n in range(batch)])
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=DECAY)
    loss, logits = loss_of(model(images), labels, smoothing)
    loss.backward()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    optimizer.step()
    loss_after, _ = loss_of(model(images), labels, smoothing)
    return model, buffers, logits.detach(), loss.item(), loss_after.item()


def samples(tensor, count):
    flat = tensor.detach().double().flatten()
    return [float(f"{flat[k * 7919 % flat.numel()].item():.9g}") for k in range(min(count, flat.numel()))]


def deviation(got, want, floor=0.0):
    return float(f"{((got.double() - want).norm() / (want.norm() + floor)).item():.3g}")


def golden(network, batch, size, image_salt, smoothing, count, bias_shift):
    case = (network, batch, size, image_salt, smoothing, bias_shift)
    model, buffers, logits, loss, loss_after = run_step(*case, torch.float64)
    model32, _, logits32, loss32, loss_after32 = run_step(*case, torch.float32)
    floor = 1e-3 * max(p.grad.norm().item() for p in model.parameters())
    gradients32 = {name: p.grad for name, p in model32.named_parameters()}
    parameters = [
        {
            "name": name,
            "shape": list(p.shape),
            "gradient_norm": float(f"{p.grad.norm().item():.9g}"),
            "gradient": samples(p.grad, count),
            "updated": samples(p, count),
        }
        for name, p in model.named_parameters()
    ]
    statistics = [
        {"name": name, "size": b.numel(), "values": samples(b, min(count, 16))}
        for name, b in buffers.items()
        if not name.endswith("num_batches_tracked")
    ]
    return {
        "network": network,
        "source": f"tests/golden/make_golden.py, PyTorch {torch.__version__.split('+')[0]}, float64",
        "batch": batch,
        "image_size": size,
        "image_salt": image_salt,
        "norm_bias_shift": bias_shift,
        "classes": CLASSES,
        "label_smoothing": smoothing,
        "learning_rate": LEARNING_RATE,
        "momentum": MOMENTUM,
        "decay": DECAY,
        "samples": count,
        "formula_check": [float(v) for v in value(4, 7)],
        "float_deviation": {
            "logits": deviation(logits32, logits),
            "loss": float(f"{abs(loss32 - loss) / loss:.3g}"),
            "loss_after": float(f"{abs(loss_after32 - loss_after) / loss_after:.3g}"),
            "gradient_worst": max(deviation(gradients32[n], p.grad, floor) for n, p in model.named_parameters()),
        },
        "loss": loss,
        "loss_after": loss_after,
        "logits": [[float(f"{v:.9g}") for v in row] for row in logits.tolist()],
        "parameters": parameters,
        "statistics": statistics,
    }


def write(result, path):
    """One line for each list of numbers, so that a change shows in a diff."""
    text = json.dumps(result, indent=1)
    lines, joined = [], None
    for line in text.split("\n"):
        stripped = line.strip()
        if joined is not None:
            joined += stripped + (" " if stripped.endswith(",") and not stripped.startswith("]") else "")
            if stripped.startswith("]"):
                lines.append(joined)
                joined = None
        elif stripped.endswith("[") and not any(key in stripped for key in ('"parameters"', '"statistics"', '"logits"')):
            joined = line
        else:
            lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    assert json.loads(path.read_text()) == result


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for case in CASES:
        if wanted and case[0] not in wanted:
            continue
        result = golden(*case)
        path = HERE / f"{case[0]}.json"
        write(result, path)
        print(f"{path.name}: {path.stat().st_size} bytes, loss {result['loss']:.6f} -> {result['loss_after']:.6f}, "
              f"float deviation {result['float_deviation']}")
