#!/usr/bin/env bash
# Runs octet as one process under gdb, built without optimization; stops where an error is thrown.
# usage: launch/debug.sh train configs/shapes_resnet20_unified_int8.yaml --set train.steps=3
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v gdb > /dev/null || { echo "debug.sh: gdb is missing: launch/setup.sh --dev" >&2; exit 1; }
[ -f build/debug/build.ninja ] || cmake --preset debug
ninja -C build/debug octet
exec gdb -q -ex 'catch throw' -ex run --args build/debug/octet "$@" --set backend.threads=1
