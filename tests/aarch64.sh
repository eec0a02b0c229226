#!/usr/bin/env bash
# Builds octet for aarch64 on a Debian of another processor, runs its unit tests by qemu's user emulation, and trains a few steps
# there and here: the weights must be the same. Installs the cross compiler, qemu and a folder of arm64 libraries when missing.
# usage: tests/aarch64.sh [CTEST_OPTIONS...]     for example: tests/aarch64.sh -R kernels
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
launch/setup.sh
launch/setup.sh --aarch64
cmake --preset aarch64
ninja -C build/aarch64
cmake --preset release > /dev/null
ninja -C build/release octet

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # qemu does not emulate process_vm_readv
# The emulator ends where a process with threads forks, and cannot start a test's program anew.
export GTEST_FILTER=-Watchdog.TimeInWhichTheProcessWasStoppedDoesNotCount:EmulationDeathTest.RefusesWhatWouldHangOrRace
# Not the integration tests, which start the program themselves and need an emulator; nor what takes hours under one.
ctest --test-dir build/aarch64 --output-on-failure -LE 'integration|slow' "$@"

# weights_of RUN COMMAND...: the hash of the weights after 20 steps of ResNet-20.
weights_of() {
  rm -rf "$1"
  "${@:2}" train configs/shapes_resnet20_unified_int8.yaml --set data.batch=16 --set data.samples=320 --set train.steps=20 \
    --set policy.clip.period=5 --run "$1" > "$1.log" 2>&1
  sed -n 's/.*"weights_sha256": "\(.*\)".*/\1/p' "$1/result.json"
}
here=$(weights_of build/aarch64/here build/release/octet)
there=$(weights_of build/aarch64/there qemu-aarch64 -L build/aarch64-sysroot build/aarch64/octet)
echo "weights here $here, on aarch64 $there"
[ -n "$here" ] && [ "$here" = "$there" ]
