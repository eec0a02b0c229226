#!/usr/bin/env python3
"""Draws where octet's kernels and steps stand under this machine's ceilings: operations a second over operations per byte.

usage: roofline.py --kernels FILE --steps FILE [FILE ...] --output FILE.svg
       build/release/octet bench kernels --filter 'memory|resnet20' --json > kernels.json
       build/release/octet bench --peer --json > steps.json
       venv/bin/pip install matplotlib
       venv/bin/python bench/roofline.py --kernels kernels.json --steps steps.json --output docs/roofline.svg

The slope is the memory's bandwidth (the triad of `octet bench kernels`, the best of all files), the flat lines are the peaks
that bench/peers/compare.py was given. A kernel alone may stand left of the slope: its operands then came from a cache.
"""

import argparse
import json
import math
import pathlib

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "octet", "font.family": "DejaVu Sans", "font.size": 10})
import matplotlib.pyplot as plt

# Okabe and Ito's colours, which also the colour-blind tell apart.
BLUE, GREEN, VERMILION, GREY = "#0072B2", "#009E73", "#D55E00", "#555555"
PASSES = {  # as `octet bench kernels` names them
    "forward": ("forward", "^", BLUE),
    "backward_data": ("gradient of the data", "s", GREEN),
    "backward_weight": ("gradient of the weights", "o", VERMILION),
}
BESIDE = {"left": dict(xytext=(-10, 0), ha="right", va="center"), "right": dict(xytext=(10, 0), ha="left", va="center"),
          "below": dict(xytext=(0, -9), ha="center", va="top")}
NETWORKS = {  # title, and where it stands
    "resnet20": ("ResNet-20", "left"),
    "mobilenet_v2_cifar": ("MobileNetV2 (CIFAR)", "below"),
    "resnet18": ("ResNet-18", "right"),
    "resnet50": ("ResNet-50", "below"),
}


def ceilings(axes, peaks, bandwidth, left, right):
    for name, peak, colour in (("INT8", peaks["int8"], "black"), ("fp32", peaks["fp32"], GREY)):
        ridge = peak / bandwidth
        axes.plot([ridge, right], [peak, peak], color=colour, linewidth=1.6)
        axes.text(right * 0.96, peak * 1.05, f"{name} peak of {peaks['threads']} cores: {peak:.0f} GOP/s", color=colour,
                  ha="right", va="bottom")
    ridge = peaks["int8"] / bandwidth
    axes.plot([left, ridge], [left * bandwidth, peaks["int8"]], color="black", linewidth=1.6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    kernels = {row["kernel"]: row for row in json.loads(options.kernels.read_text())}
    comparisons = [json.loads(path.read_text()) for path in options.steps]
    peaks = comparisons[0]["ceilings"]
    bandwidth = max([kernels["memory/triad"]["GB/s"]] + [comparison["ceilings"]["memory"] for comparison in comparisons])

    figure, axes = plt.subplots(figsize=(9, 5.6))
    left, right, bottom, top = 2, 1000, 60, 1600
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top),
             xlabel="operations per byte that must be moved", ylabel="GOP/s")
    ceilings(axes, peaks, bandwidth, left, right)

    for name, row in kernels.items():
        layer, _, direction = name.rpartition("/")
        if layer.startswith("resnet20/") and direction in PASSES:
            _, marker, colour = PASSES[direction]
            axes.scatter(row["operations"] / row["bytes"], row["GOP/s"], marker=marker, s=34, color=colour, alpha=0.85,
                         linewidths=0, zorder=3)
    for comparison in comparisons:
        for step in comparison["results"]:
            operations, moved = sum(step["operations_per_step"].values()), sum(step["bytes_per_step"].values())
            x, y = operations / moved, operations / step["programs"]["octet"]["step_ms"] * 1e-6
            axes.scatter(x, y, marker="*", s=150, color="black", zorder=4)
            title, side = NETWORKS[step["network"]]
            axes.annotate(f"{title}: {100 * step['roofline_share']:.0f} %", (x, y), textcoords="offset points", **BESIDE[side])

    entries = [(marker, 34, colour, f"{label}, a layer of ResNet-20") for label, marker, colour in PASSES.values()]
    entries.append(("*", 150, "black", "whole training step, and its share of the roofline"))
    axes.legend(handles=[axes.scatter([], [], marker=marker, s=size, color=colour, label=label, linewidths=0)
                         for marker, size, colour, label in entries], loc="lower right", frameon=False)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_locator(matplotlib.ticker.FixedLocator([100, 200, 500, 1000]))
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.xaxis.set_major_locator(matplotlib.ticker.FixedLocator([2, 5, 10, 20, 50, 100, 200, 500, 1000]))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    (x0, y0), (x1, y1) = axes.transData.transform([(4, 4 * bandwidth), (8, 8 * bandwidth)])  # on paper, for the label's angle
    axes.text(3, 3 * bandwidth * 1.1, f"memory: {bandwidth:.0f} GB/s", rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)),
              rotation_mode="anchor")
    figure.savefig(options.output, metadata={"Date": None})


if __name__ == "__main__":
    main()
