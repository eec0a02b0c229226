#!/usr/bin/env bash
# A linker merges functions of one name. If files compiled for different instruction sets share one, it may keep a copy
# that an older processor cannot run. So tier sources, compiled without optimization, may define no mergeable function
# outside their own namespace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
# check FILE COMPILER FLAGS...
check() {
  local file=$1 tier shared
  tier=$(sed -n 's/^#define OCTET_TIER //p' "$file")
  "${@:2}" -std=c++20 -O0 -w -ffp-contract=off -I. -c "$file" -o "$work/object.o"
  shared=$(nm -C "$work/object.o" | awk '$2 ~ /^W$/' | grep -v "octet::cpu::$tier::" || true)
  if [ -n "$shared" ]; then
    echo "$file defines functions that other files may share:"
    echo "$shared"
    failed=1
  fi
}
for file in kernels/cpu/{passes,block_loops,chunked_sums,contraction,detection_loops}_avx2.cpp kernels/cpu/{contraction_{avx_vnni,amx},depthwise_codes_avx512}.cpp; do
  flags=(-mavx2 -mfma)
  [[ $file = *avx2.cpp || $file = *avx_vnni.cpp ]] || flags+=(-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
  [[ $file != *amx.cpp ]] || flags+=(-mamx-tile -mamx-int8)
  check "$file" "${CXX:-g++}" "${flags[@]}"
done
if command -v aarch64-linux-gnu-g++ > /dev/null; then  # otherwise what the others include has been checked
  check kernels/cpu/contraction_neon_dot.cpp aarch64-linux-gnu-g++ -march=armv8.2-a+dotprod
  check kernels/cpu/contraction_neon_i8mm.cpp aarch64-linux-gnu-g++ -march=armv8.2-a+dotprod+i8mm
fi
exit $failed
