#!/usr/bin/env bash
# Runs octet as one process in a debugger, which stops where an error is thrown: gdb with an unoptimized build, or cuda-gdb with
# --set backend.device=cuda. With --check TOOL it runs the kernels of a GPU under compute-sanitizer instead.
# usage: launch/debug.sh train configs/shapes_resnet20_unified_int8.yaml --set train.steps=3 [--set backend.device=cuda]
#        launch/debug.sh --check memcheck|racecheck|initcheck|synccheck train CONFIG --set train.steps=2 --set backend.device=cuda
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n '2,5s/^# //p' "launch/debug.sh" >&2; exit 2; }
need() { command -v "$1" > /dev/null || { echo "debug.sh: $1 is missing: $2" >&2; exit 1; }; }
check=
if [ "${1:-}" = --check ]; then
  check=${2:-}
  case $check in
    memcheck | racecheck | initcheck | synccheck) shift 2 ;;
    *) usage ;;
  esac
  need compute-sanitizer "it is part of the CUDA toolkit"
elif [[ " $* " == *backend.device=cuda* ]]; then
  need cuda-gdb "it is part of the CUDA toolkit"
else
  need gdb "launch/setup.sh --dev"
fi

case ${1:-} in '' | -*) usage ;; esac

# GPU kernels need the release build: without optimization they do not fit into their registers.
preset=debug
if [ -n "$check" ] || [[ " $* " == *backend.device=cuda* ]]; then preset=release; fi
[ -f build/$preset/build.ninja ] || cmake --preset $preset
ninja -C build/$preset octet
cuda=(--set backend.check_kernels=true)
if [ -n "$check" ]; then
  exec compute-sanitizer --tool "$check" --error-exitcode 9 build/$preset/octet "$@" "${cuda[@]}"
elif [ $preset = release ]; then
  exec cuda-gdb -q -ex 'catch throw' -ex run --args build/$preset/octet "$@" "${cuda[@]}"
else
  exec gdb -q -ex 'catch throw' -ex run --args build/$preset/octet "$@" --set backend.threads=1
fi
