#!/usr/bin/env bash
# Builds the static programs for boards, for this processor and for aarch64, and compares them with the usual program: ResNet-20 ends
# at the same weights, also under qemu; what is exported is the same; memory, size and start-up stay within bounds. Prints each
# figure. Installs the cross compiler, qemu and a folder of arm64 libraries when missing.
# usage: tests/board.sh [STEPS]      default: 50; needs OCTET_CIFAR10, the folder of CIFAR-10's binary files
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
steps=${1:-50}
if [ -z "${OCTET_CIFAR10:-}" ]; then
  echo "skipped: OCTET_CIFAR10 names no folder with CIFAR-10"
  exit 77
fi
launch/setup.sh --board
for preset in release board board-aarch64; do
  [ -e "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset" > /dev/null
  ninja -C "build/$preset" octet
done
work=build/board-test
rm -rf "$work"
mkdir -p "$work"
failed=0
require() {  # WHAT FIGURE LIMIT
  if [ "$(printf '%s\n%s\n' "$2" "$3" | sort -g | tail -1)" = "$3" ]; then echo "$1: $2, at most $3"; else
    echo "FAILED $1: $2, more than $3"
    failed=1
  fi
}

for preset in board board-aarch64; do
  if ldd "build/$preset/octet" 2>&1 | grep -q '=>'; then echo "FAILED: build/$preset/octet is not static" && failed=1; fi
done
require "megabytes of the program for aarch64" "$(stat -c '%s' build/board-aarch64/octet | awk '{print $1 / 1e6}')" 12
start=$(date +%s%N)
for _ in 1 2 3 4 5 6 7 8 9 10; do build/board/octet --version > /dev/null; done
require "milliseconds until --version" "$(awk "BEGIN {print ($(date +%s%N) - $start) / 1e7}")" 50

# train NAME COMMAND...: the hash of the weights after some steps; NAME.peak holds the peak of memory in megabytes.
train() {
  /usr/bin/time -f %M -o "$work/$1.kb" "${@:2}" train configs/cifar10_resnet20_unified_int8.yaml --set "data.root=$OCTET_CIFAR10" \
    --set data.batch=32 --set "train.steps=$steps" --set train.epochs=1 --set data.workers=1 --set train.eval_every_epochs=1000000 \
    --run "$work/$1" > "$work/$1.log" 2>&1
  sed -n 's/.*"weights_sha256": "\(.*\)".*/\1/p' "$work/$1/result.json"
}
usual=$(train usual build/release/octet)
here=$(train here build/board/octet)
there=$(train there qemu-aarch64 build/board-aarch64/octet)
echo "weights after $steps steps: $usual, of the board's program $here, on aarch64 $there"
if [ -z "$usual" ] || [ "$usual" != "$here" ] || [ "$usual" != "$there" ]; then echo "FAILED: the weights differ" && failed=1; fi
require "megabytes of memory at the peak" "$(awk '{print $1 / 1000}' "$work/here.kb")" 60

for program in build/release/octet build/board/octet "qemu-aarch64 build/board-aarch64/octet"; do
  $program export "$work/usual" --for c --output "$work/net" --unchecked > /dev/null
  sha256sum < "$work/net.c"
done | sort -u | wc -l | grep -qx 1 || { echo "FAILED: exported files differ" && failed=1; }
build/board/octet train configs/cifar10_resnet20_fp32.yaml --set "data.root=$OCTET_CIFAR10" --set train.steps=2 --set train.epochs=1 \
  --run "$work/real" > "$work/real.log" 2>&1
build/board/octet --version | grep -q "fp32 on CPUs: octet's own" || { echo "FAILED: fp32 is not octet's own" && failed=1; }
exit "$failed"
