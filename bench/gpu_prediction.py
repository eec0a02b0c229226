#!/usr/bin/env python3
"""Predicts a training step of ResNet-50 on a GPU from bytes and instructions, as docs/cuda.md has it. Nothing is measured.

usage: bench/gpu_prediction.py   (an H100, batch 256)
"""

BATCH = 256
BANDWIDTH = 3.35e12             # bytes a second
INSTRUCTIONS = 132 * 4 * 1.7e9  # of warps a second
PRODUCTS = 0.5 * 1230e12 / 2    # of codes a second: half the ceiling of mma.sync

# Instructions for each element, or product of the first layer. The first layer's are counted in the compiled loops, the others
# estimated from reading them.
EPILOGUE, MOMENTS, NORM, SUMS, ENCODING, FIRST_FORWARD, FIRST_WEIGHT = 17, 11, 40, 25, 55, 3.5, 4.1


def layers():
    """(inputs, outputs, kernel, stride, output extent) of the convolutions behind the first."""
    inputs, extent = 64, 56
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            yield inputs, width, 1, 1, extent
            yield width, width, 3, stride, extent // stride
            yield width, 4 * width, 1, 1, extent // stride
            if block == 0:
                yield inputs, 4 * width, 1, stride, extent // stride
            inputs, extent = 4 * width, extent // stride


def main():
    first_outputs = 64 * 112 * 112 * BATCH
    convolutions, outputs, read = 0, first_outputs, 0
    for c_in, c_out, kernel, stride, extent in layers():
        y, x = c_out * extent**2 * BATCH, c_in * (extent * stride)**2 * BATCH
        products = y * kernel**2 * c_in / PRODUCTS
        convolutions += sum(max(products, moved / BANDWIDTH) for moved in (x + 2 * y, y + 2 * x, x + y))
        outputs, read = outputs + y, read + x
    rows = [("norm, activation, encoding", 3 * outputs, NORM * outputs),
            ("norm backward, sums", 4 * outputs, SUMS * outputs),
            ("norm backward, encoding", 5 * outputs, ENCODING * outputs),
            ("epilogues", 0, EPILOGUE * (outputs + read) + MOMENTS * outputs),
            ("first layer, forward", 0, FIRST_FORWARD * 147 * first_outputs),
            ("first layer, weight gradient", 0, FIRST_WEIGHT * 147 * first_outputs)]
    total = convolutions
    print(f"{'convolutions of codes':<32} {convolutions * 1e3:31.1f} ms")
    for name, moved, instructions in rows:
        by_bytes, by_instructions = moved / BANDWIDTH, instructions / 32 / INSTRUCTIONS
        total += max(by_bytes, by_instructions)
        print(f"{name:<32} bytes {by_bytes * 1e3:4.1f}, instructions {by_instructions * 1e3:4.1f} ms")
    print(f"{'together':<32} {total * 1e3:31.1f} ms")


if __name__ == "__main__":
    main()
