#!/usr/bin/env bash
# Cross-compiles the CPU kernels for aarch64 and tests them by qemu's user emulation, on processors with matrix products (i8mm),
# with dot products alone, and with neither; then counts the instructions of the contractions (tests/cross/instructions.py).
# usage: tests/cross.sh [--whole]
#   --whole  every test of kernels, on the processor that has all tiers; it takes long
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
whole=false
case "$*" in
  '') ;;
  --whole) whole=true ;;
  *) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
for needed in aarch64-linux-gnu-g++ qemu-aarch64; do
  if ! command -v $needed > /dev/null; then
    echo "skipped: there is no $needed (launch/setup.sh --cross installs it)"
    exit 77
  fi
done
if [ ! -e /usr/src/googletest/googletest/src/gtest-all.cc ]; then
  echo "skipped: /usr/src/googletest has no sources of GoogleTest (launch/setup.sh installs them)"
  exit 77
fi

out=build/cross
mkdir -p build
[ -e $out/build.ninja ] || cmake -S tests/cross -B $out -G Ninja > $out.log || { cat $out.log; exit 1; }
# run PROGRAM CPU TIERS OPTIONS...
run() {
  echo "== $1 on $2: $3"
  OCTET_EXPECTED_ISAS=$3 OMP_WAIT_POLICY=passive qemu-aarch64 -cpu "$2" "$out/$1" "${@:4}"
}
build() { ninja -C $out -j "$(nproc)" "$1" > $out.log || { cat $out.log; exit 1; }; }

all='scalar neon_dot neon_i8mm'
if $whole; then
  build test_whole
  run test_whole max "$all" --gtest_filter='-OneDnn*:SharedWork*'  # 64 threads take an emulator long
  exit
fi
build test_quick
# Of each tier on the processor whose best it is. Random problems are of both types of codes.
few='CrossTiers.*:*Int8Convolution.OfRandomProblems*/TIER:*Int8Convolution.LongestSums*/TIER'
run test_quick max "$all" --gtest_filter="${few//TIER/neon_i8mm}:*Int8Convolution.*Networks*/neon_i8mm:*Requantized.*/neon_i8mm" > $out/max.log &
first=$!
failed=0
run test_quick neoverse-n1 'scalar neon_dot' --gtest_filter="${few//TIER/neon_dot}" || failed=1
run test_quick cortex-a53 scalar --gtest_filter='CrossTiers.*:*Int8Convolution.LongestSums*/scalar' || failed=1
wait $first || failed=1
cat $out/max.log
tests/cross/instructions.py $out/libkernels.a || failed=1
exit $failed
