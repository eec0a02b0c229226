#!/usr/bin/env python3
"""Counts instructions per product of codes in the contraction of the tiers of aarch64: in the innermost loops of whole
tiles, loads and the loop itself included. It is a count, not a time. Exits with 1 if the worst loop of neon_i8mm has more
than BAR times those of the best one of neon_dot.
usage: instructions.py PROGRAM_OR_LIBRARY"""
import re
import subprocess
import sys

BAR = 0.6
PRODUCTS = {"sdot": 16, "smmla": 32}  # of one instruction
TIERS = {"neon_dot": "sdot", "neon_i8mm": "smmla"}


def functions(binary):
    """(name, [(address, operation, operands)]) of each."""
    listing = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "-C", "--no-show-raw-insn", binary], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    name, instructions = None, []
    for line in listing.splitlines():
        if begin := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            if name:
                yield name, instructions
            name, instructions = begin[1], []
        elif instruction := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            instructions.append((int(instruction[1], 16), instruction[2], instruction[3]))
    if name:
        yield name, instructions


def innermost_loops(instructions):
    """The operations from the target of a branch backwards to the branch, where no such loop is within."""
    index = {address: i for i, (address, _, _) in enumerate(instructions)}
    loops = set()
    for last, (_, operation, operands) in enumerate(instructions):
        target = re.search(r"\b([0-9a-f]+) <", operands)
        if target and re.match(r"(b|b\..*|cbn?z|tbn?z)$", operation):
            first = index.get(int(target[1], 16), last + 1)
            if first <= last:
                loops.add((first, last))
    for first, last in loops:
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in loops):
            yield [operation for _, operation, _ in instructions[first:last + 1]]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    loops = {tier: [] for tier in TIERS}
    for name, instructions in functions(sys.argv[1]):
        for tier, operation in TIERS.items():
            if f"octet::cpu::{tier}::" in name and "DigitsOf" not in name:  # the first layer has tiles of its own
                for loop in innermost_loops(instructions):
                    if products := PRODUCTS[operation] * loop.count(operation):
                        loops[tier].append((products, len(loop)))
    if not all(loops.values()):
        sys.exit(f"no loops of {' or '.join(tier for tier in TIERS if not loops[tier])}")
    per_product = {}
    for tier, found in loops.items():
        most = max(products for products, _ in found)  # of a whole tile
        counts = sorted(length / products for products, length in found if products == most)
        per_product[tier] = counts
        print(f"{tier}: {counts[0]:.4f} to {counts[-1]:.4f} instructions per product in {len(counts)} loops of {most} products")
    ratio = per_product["neon_i8mm"][-1] / per_product["neon_dot"][0]
    print(f"worst of neon_i8mm / best of neon_dot: {ratio:.3f}, at most {BAR}")
    return ratio > BAR


if __name__ == "__main__":
    sys.exit(main())
