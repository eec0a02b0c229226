#!/usr/bin/env python3
"""Writes tests/golden/policies.json: what the simulated policies' formulas make of given numbers, in float64, independently of
octet's code; the oracle of tests/quant/test_policies.cpp.

usage: python3 tests/golden/make_policies.py        (needs numpy and torch)

Inputs come from value(i, salt) of make_golden.py, times a factor. Random bits are Philox4x32-7 (kernels/shared/random.h).
Formulas: the files src/quant/*.cpp name papers and equations.
"""

import json
import math
import pathlib

import numpy as np
import torch

from make_golden import value

HERE = pathlib.Path(__file__).resolve().parent
SEED, STEP, SITE = 5, 3, 17
N, COUNT = 4, 64  # samples, elements of each


def philox(counter, step, site, seed):
    c, k = [counter & 0xFFFFFFFF, counter >> 32, step, site], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(7):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(count):
    """In (0, 1), from random_bits16 of kernels/shared/random.h."""
    draws = []
    for e in range(count):
        g, k, h, l, p = e // 256, e // 64 % 4, e // 32 % 2, e % 32 // 2, e % 2
        word = philox(16 * g + l, STEP, SITE, SEED)[k]
        draws.append(((((word << 32 | word) >> (8 * h + 16 * p)) & 0xFFFF) + 0.5) / 65536)
    return np.array(draws)


def q(x, k):
    return np.round((2**k - 1) * x) / (2**k - 1)


def grid(x, k):
    return np.round(x * 2.0 ** (k - 1)) / 2.0 ** (k - 1)


def clip(x, k):
    return np.clip(x, -1 + 2.0 ** (1 - k), 1 - 2.0 ** (1 - k))


def shift(x):
    return 2.0 ** np.round(np.log2(x))


def small_floats(exponent_bits, mantissa_bits):
    """Every number that is not negative, in order; the index's parity is that of the last mantissa bit."""
    bias = 2 ** (exponent_bits - 1) - 1
    numbers = []
    for exponent in range(2**exponent_bits - 1):
        for mantissa in range(2**mantissa_bits):
            lead = 1 if exponent > 0 else 0
            numbers.append((lead + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias))
    return np.array(numbers)


def nearest(x, numbers):
    out = []
    for v in np.asarray(x, dtype=np.float64):
        i = int(np.clip(np.searchsorted(numbers, abs(v)), 1, len(numbers) - 1))
        low, high = numbers[i - 1], numbers[i]
        up = abs(v) - low > high - abs(v) or (abs(v) - low == high - abs(v) and i % 2 == 0)
        out.append(math.copysign(high if up or abs(v) >= numbers[-1] else low, v))
    return np.array(out)


def stochastic(x, u, numbers):
    out = []
    for v, draw in zip(x, u):
        i = int(np.searchsorted(numbers, abs(v), side="right")) - 1
        low, step = numbers[i], numbers[min(i + 1, len(numbers) - 1)] - numbers[i]
        part = (abs(v) - low) / step  # of the way to the next number away from zero
        if v < 0 and part > 0:  # floor goes away from zero
            out.append(-(low + step) if draw < part else -low)
        else:
            out.append(math.copysign(low + step if 1 - draw <= part else low, v))
    return np.array(out)


def inputs(salt, factor, count=N * COUNT):
    return value(count, salt).astype(np.float64) * factor


def dorefa():
    w, a, e, g = inputs(1, 3), inputs(2, 4), inputs(3, 0.01), inputs(4, 1)
    t = np.tanh(w)
    tensor = torch.tensor(w, requires_grad=True)
    y = torch.tanh(tensor)
    (y / y.abs().max() * torch.tensor(g)).sum().backward()
    m = np.abs(e.reshape(N, -1)).max(1).repeat(COUNT)
    noise = (uniform(N * COUNT) - 0.5) / 255
    return {
        "weight": 2 * q(t / (2 * np.abs(t).max()) + 0.5, 8) - 1,
        "activation": q(np.clip(a, 0, 1), 8),
        "error": 2 * m * (q(np.clip(e / (2 * m) + 0.5 + noise, 0, 1), 8) - 0.5),
        "weight_backward": tensor.grad.numpy(),
        "activation_backward": np.where((a >= 0) & (a <= 1), g, 0),
    }


def wage():
    w, e, g = inputs(1, 3), inputs(3, 0.01), inputs(4, 0.3)
    scale = shift(np.abs(e).max())
    fans = [9, 27, 288, 1152, 4608, 8192]
    start = 0.5 * np.sign(w) * (np.abs(w) > 0.5)
    n = 8.0 * g / shift(np.abs(g).max())
    whole = np.floor(np.abs(n))
    whole += np.abs(n) - whole > uniform(len(n))
    gains = [max(2.0 ** round(math.log2(0.75 / math.sqrt(3 / fan))), 1) for fan in fans]
    return {
        "weight": grid(clip(w, 2), 2),
        "activation": grid(clip(inputs(2, 4), 8), 8),
        "value_error": scale * grid(clip(e / scale, 8), 8),
        "start": start,
        "updated": clip(start - np.sign(n) * whole / 128, 2),
        "fan_in": np.array(fans, dtype=np.float64),
        "gain": np.array([1 / gain if gain > 1.8 else 1.0 for gain in gains]),
    }


def wageubn():
    w, a, e = inputs(1, 3), inputs(2, 4), inputs(3, 0.01)
    g = inputs(4, 0.3) + 0.01 * w
    s = shift(np.abs(e).max())
    t = e / (s / 128)
    x = inputs(5, 4).reshape(-1, 4)
    mu, sigma = grid(x.mean(0), 16), grid(np.sqrt(x.var(0)), 16) + 2.0**-15
    n = np.clip(np.floor(g / shift(np.abs(g).max()) * 128 + uniform(len(g))), -127, 127)
    v = 0.9 * inputs(6, 0.1) + grid(n / 16384, 15)
    return {
        "weight": clip(grid(w, 8), 8),
        "activation": grid(a, 8),
        "error": s / 128 * np.where(np.abs(t) < 1, grid(t, 8), np.clip(np.round(t), -127, 127)),
        "value_error": s * np.clip(grid(e / s, 8), -1, 1),
        "norm": (mu + sigma * grid((x - mu) / sigma, 8)).flatten(),
        "velocity": grid(v, 13),
        "updated": grid(w - clip(grid(np.float64(0.1), 10), 10) * v, 24),
    }


def asymmetric(x, low, high, noise=0.0):
    step = (high - low) / 255
    return np.round(np.clip((x - low) / step + noise, 0, 255)) * step + low


def range_bn():
    w, a, e = inputs(1, 3), inputs(2, 4), inputs(3, 0.01)
    samples = a.reshape(N, -1)
    a_hat = asymmetric(a, samples.min(1).mean(), samples.max(1).mean(), uniform(len(a)) - 0.5)
    # The norm, on (pixels, 4 channels) = 64 pixels, 16 chunks of 4; gradients by automatic differentiation.
    gamma = torch.tensor(1 + inputs(7, 0.5, 4), requires_grad=True)
    beta = torch.tensor(inputs(8, 0.5, 4), requires_grad=True)
    x = torch.tensor(a_hat.reshape(-1, 4), requires_grad=True)
    y = x.t().reshape(4, 16, -1)
    spread = y.max(-1)[0].mean(-1) - y.min(-1)[0].mean(-1)
    fix = 0.5 * 0.35 * (1 + math.sqrt(math.pi * math.log(4))) / math.sqrt(2 * math.log(y.shape[-1]))
    scale = 1 / (spread * fix + 1e-5)
    dz = torch.tensor(inputs(9, 1).reshape(-1, 4))
    ((x - x.mean(0)) * scale * gamma + beta).backward(dz)
    return {
        "weight": asymmetric(w, w.min(), w.max()),
        "activation": a_hat,
        "error": asymmetric(e, e.min(), e.max(), uniform(len(e)) - 0.5),
        "norm_scale": scale.detach().numpy(),
        "norm_gradient": x.grad.numpy().flatten(),
    }


def psq():
    w, a, e = inputs(1, 3), inputs(2, 4), inputs(3, 0.01)
    low, high = min(w.min() - 1e-8, 0), max(w.max() + 1e-8, 0)
    zero = math.floor(-low * 255 / (high - low))
    noise = (uniform(len(e)) - 0.5).reshape(N, -1)
    rows = e.reshape(N, -1) * 10.0 ** -np.arange(0, 2 * N, 2).reshape(N, 1)  # samples of very different errors

    def widened(x, axis=None):
        low, high = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
        return asymmetric(x, low - 1e-8, high + 1e-8, noise if x is rows else 0.0).flatten()

    return {
        "weight": asymmetric(w, low, (zero - 255) * low / zero),
        "activation": widened(a),
        "error_input": rows.flatten(),
        "error": widened(rows, 1),
        "weight_error": widened(rows, 0),
    }


def dai8():
    w, a = inputs(1, 3), inputs(2, 4)
    e = inputs(3, 0.01).reshape(-1, 4)  # (pixels, channels); the last two have long tails
    e[:, 2:] = e[:, 2:] ** 5 * 4e8
    u = uniform(e.size).reshape(-1, 4)

    def symmetric(x):
        return np.round(127 * x / np.abs(x).max()) * np.abs(x).max() / 127

    def clip_of(g, before):
        bell = (np.abs(g) > g.std()).mean() > 0.3
        return np.abs(g).max() if bell else (1 - 0.8) * before + 0.8 * np.abs(g).max()

    before = np.array([0.004, 0.003, 0.0004, 0.0004, 0.002])
    clips = np.array([clip_of(e[:, c], before[c]) for c in range(4)] + [clip_of(e, before[4])])

    def stochastic_in(s):
        return np.floor(np.clip(127 * e / s, -127, 127) + u) * s / 127

    return {
        "weight": symmetric(w),
        "activation": symmetric(a),
        "error_input": e.flatten(),
        "before": before,
        "now": clips,
        "error": stochastic_in(clips[4]).flatten(),
        "weight_error": stochastic_in(clips[:4]).flatten(),
    }


def fp8():
    numbers8, numbers16 = small_floats(5, 2), small_floats(6, 9)
    w, g, v = inputs(1, 3), inputs(4, 0.3), inputs(6, 0.1)
    tiny = np.concatenate([inputs(1, 3, 64), inputs(2, 1e-4, 64), inputs(3, 3e5, 64), inputs(4, 1e-6, 64)])
    draws = np.array([[(word >> 8) / 2**24 for word in philox(i, STEP, SITE, SEED)] for i in range(N * COUNT)])
    step = stochastic(g / 1000 + 1e-4 * w, draws[:, 0], numbers16)
    moved = stochastic(0.9 * v + step, draws[:, 1], numbers16)
    return {
        "rounded": nearest(tiny, numbers8),
        "rounded16": nearest(tiny, numbers16),
        "velocity": moved,
        "updated": stochastic(w - 0.1 * moved, draws[:, 2], numbers16),
    }


if __name__ == "__main__":
    result = {"seed": SEED, "step": STEP, "site": SITE, "samples": N, "elements": COUNT}
    for policy in dorefa, wage, wageubn, range_bn, fp8, psq, dai8:
        result[policy.__name__] = {name: [float(f"{v:.9g}") for v in values] for name, values in policy().items()}
    text = json.dumps(result).replace("], ", "],\n").replace("}, ", "},\n")
    (HERE / "policies.json").write_text(text + "\n")
    print(len(text), "bytes")
