#!/usr/bin/env bash
# A linker merges functions of one name. If files compiled for different instruction sets share one, it may keep a copy
# that an older processor cannot run. So tier sources, compiled without optimization, may define no mergeable function
# outside their own namespace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for file in kernels/cpu/{passes,block_loops,chunked_sums,contraction,detection_loops}_avx2.cpp kernels/cpu/{contraction_{avx_vnni,amx},depthwise_codes_avx512}.cpp; do
  tier=$(sed -n 's/^#define OCTET_TIER //p' "$file")
  flags=(-mavx2 -mfma)
  [[ $tier = avx2 || $tier = avx_vnni ]] || flags+=(-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
  [ "$tier" != amx ] || flags+=(-mamx-tile -mamx-int8)
  "${CXX:-g++}" -std=c++20 -O0 -w -ffp-contract=off -I. "${flags[@]}" -c "$file" -o "$work/object.o"
  shared=$(nm -C "$work/object.o" | awk '$2 ~ /^W$/' | grep -v "octet::cpu::$tier::" || true)
  if [ -n "$shared" ]; then
    echo "$file defines functions that other files may share:"
    echo "$shared"
    failed=1
  fi
done
exit $failed
