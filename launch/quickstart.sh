#!/usr/bin/env bash
# Installs missing packages, builds octet, and trains ResNet-20 in INT8 on two ranks. The data set is built into octet, so nothing
# is downloaded but packages. Takes minutes on two cores. Prints at the end the test accuracy, where the program is, and what to do
# next.
# usage: launch/quickstart.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
launch/setup.sh
# The GPU kernels of all architectures take minutes to compile: a new build gets those of the GPU here, or of one architecture.
if command -v nvcc > /dev/null && [ -z "${CUDAARCHS:-}" ] && [ ! -e build/release/CMakeCache.txt ]; then
  if nvidia-smi -L > /dev/null 2>&1; then export CUDAARCHS=native; else export CUDAARCHS=90; fi
  echo "quickstart: GPU kernels for $CUDAARCHS alone; later: cmake --preset release -U CMAKE_CUDA_ARCHITECTURES, for all"
fi
cmake --preset release
ninja -C build/release octet
run=runs/quickstart-$(date +%Y%m%d-%H%M%S)
launch/mpirun.sh -n 2 train configs/shapes_resnet20_unified_int8.yaml --run "$run"
awk -v seconds="$SECONDS" -v run="$run" -F '[:,]' '$1 ~ /"top1"/ {
  printf "quickstart: test accuracy %.2f %% after %d s; the run is in %s\n", 100 * $2, seconds, run
  exit }' "$run/result.json"
here=$(printf %q "$PWD")
cat << END
quickstart: the program is $here/build/release/octet; next:
  $here/build/release/octet inspect $here/$run    # a page with the curves of this run
  $here/build/release/octet new DIR --output mine.yaml    # a recipe for your images, DIR/CLASS/*.jpg
  $here/build/release/octet train mine.yaml --run runs/mine
END
