#!/usr/bin/env bash
# Builds octet for aarch64 on a Debian of another processor and runs its tests by qemu's user emulation. The cross compiler,
# qemu and a folder of arm64 libraries (build/aarch64-sysroot) are installed when missing; not part of tests/run.sh.
# usage: tests/aarch64.sh [CTEST_OPTIONS...]     for example: tests/aarch64.sh -R kernels
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
launch/setup.sh --aarch64
cmake --preset aarch64
ninja -C build/aarch64
# Without binfmt_misc the emulator must be named, which CMake does for unit tests; ranks and the integration tests start the
# program themselves.
ctest --test-dir build/aarch64 --output-on-failure -LE integration "$@"
