#!/usr/bin/env python3
"""Counts integer tensor-core instructions (IMMA) of every kernel in a cubin, without a disassembler.

usage: cuda_opcodes.py FILE.cubin LEAST   fails when some kernel has fewer than LEAST

From sm_70 on an instruction is 16 bytes, and its lowest 12 bits are the opcode; IMMA is 0x237.
"""

import struct
import sys

IMMA = 0x237


def sections(elf):
    """(name, contents) of every section of a 64-bit ELF file."""
    table, = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = headers[names_index][4]
    for name, _, _, _, offset, length in headers:
        end = elf.index(b"\0", names + name)
        yield elf[names + name:end].decode(), elf[offset:offset + length]


def main():
    path, least = sys.argv[1], int(sys.argv[2])
    with open(path, "rb") as file:
        elf = file.read()
    if elf[:4] != b"\x7fELF":
        sys.exit(f"{path} is not an ELF file")
    kernels = [(name, code) for name, code in sections(elf) if name.startswith(".text.")]
    if not kernels:
        sys.exit(f"{path} holds no kernel")
    poor = False
    for name, code in kernels:
        count = sum(struct.unpack_from("<Q", code, at)[0] & 0xFFF == IMMA for at in range(0, len(code) - 15, 16))
        print(f"  {name[6:]}: {count} IMMA of {len(code) // 16} instructions")
        poor |= count < least
    if poor:
        sys.exit(f"FAILED {path}: a kernel has fewer than {least} IMMA instructions")


if __name__ == "__main__":
    main()
