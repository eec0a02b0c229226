#!/usr/bin/env python3
"""Counts instructions of the kernels in a cubin, without a disassembler.

usage: cuda_opcodes.py FILE.cubin IMMA              fails when some kernel has fewer integer tensor-core instructions (IMMA)
       cuda_opcodes.py --budgets TABLE FILE.cubin...   sm_90: fails when a kernel is longer than its line of the table allows,
                                                       or when a line names no kernel

A line of the table has a part of a kernel's name as the compiler writes it, an opcode, and a number: the most instructions of
the loops that hold this opcode, or with the opcode `all` of the kernel, see body_of(). '#' begins a comment. From sm_70 on an
instruction is 16 bytes, and its lowest 12 bits are the opcode.
"""

import struct
import sys

OPCODES = {"IMMA": 0x237, "IDP": 0x226, "BRA": 0x947, "EXIT": 0x94D}


def sections(elf):
    """(name, contents) of every section of a 64-bit ELF file."""
    table, = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = headers[names_index][4]
    for name, _, _, _, offset, length in headers:
        end = elf.index(b"\0", names + name)
        yield elf[names + name:end].decode(), elf[offset:offset + length]


def kernels_of(path):
    """The instructions of each kernel, 128-bit numbers, by its name."""
    with open(path, "rb") as file:
        elf = file.read()
    if elf[:4] != b"\x7fELF":
        sys.exit(f"{path} is not an ELF file")
    kernels = {name[6:]: [int.from_bytes(code[at:at + 16], "little") for at in range(0, len(code) - 15, 16)]
               for name, code in sections(elf) if name.startswith(".text.")}
    if not kernels:
        sys.exit(f"{path} holds no kernel")
    return kernels


def is_opcode(instruction, name):
    return instruction & 0xFFF == OPCODES[name]


def body_of(code):
    """Without what follows the last EXIT: padding, and what divisions call for operands that are not usual."""
    return code[:1 + max(at for at, instruction in enumerate(code) if is_opcode(instruction, "EXIT"))]


def loops_of(code):
    """(first, end) of what branches back enclose. The distance of a branch, in units of 4 bytes from the next instruction, has its
    lowest 8 bits from bit 16 on and the others from bit 34 on (sm_90)."""
    loops = []
    for at, instruction in enumerate(code):
        if not is_opcode(instruction, "BRA"):
            continue
        distance = (instruction >> 34 & (1 << 48) - 1) << 8 | instruction >> 16 & 0xFF
        distance -= distance >> 55 << 56
        first = at + 1 + distance * 4 // 16
        if 0 <= first <= at < len(code) - 1:  # the last one branches to itself
            loops.append((first, at + 1))
    return loops


def innermost_loops(code):
    """The code of loops that have no loop in them."""
    loops = loops_of(code)
    inner = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return [code[first:end] for first, end in inner]


def check_imma(path, least):
    poor = False
    for name, code in kernels_of(path).items():
        count = sum(is_opcode(instruction, "IMMA") for instruction in code)
        print(f"  {name}: {count} IMMA of {len(code)} instructions")
        poor |= count < least
    if poor:
        sys.exit(f"FAILED {path}: a kernel has fewer than {least} IMMA instructions")


def check_budgets(table, paths):
    with open(table, encoding="ascii") as file:
        lines = [line.split("#")[0].split() for line in file]
    kernels = {name: code for path in paths for name, code in kernels_of(path).items()}
    failed = False
    for part, opcode, most in filter(None, lines):
        named = [name for name in kernels if part in name]
        if not named:
            print(f"  FAILED: no kernel is named {part}")
        failed |= not named
        for name in named:
            found = [body_of(kernels[name])] if opcode == "all" else [loop for loop in innermost_loops(kernels[name])
                                                             if any(is_opcode(one, opcode) for one in loop)]
            longest = max(map(len, found), default=0)
            verdict = "FAILED" if longest == 0 or longest > int(most) else "ok"
            print(f"  {verdict}: {longest} instructions, of {most} allowed: {opcode}, {name}")
            failed |= verdict == "FAILED"
    if failed:
        sys.exit(f"FAILED: a kernel is longer than {table} allows, has no such loop, or is not there")


def main():
    if len(sys.argv) == 3 and sys.argv[1] != "--budgets":
        check_imma(sys.argv[1], int(sys.argv[2]))
    elif len(sys.argv) > 3 and sys.argv[1] == "--budgets":
        check_budgets(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
