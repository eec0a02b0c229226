#!/usr/bin/env bash
# Compiles every CUDA kernel for every architecture, without a GPU. Fails when a tensor-core kernel, or on sm_90 a hot one, spills
# registers, when a tensor-core kernel holds no tensor-core instruction, or in the weight gradient uses more than 128 registers, when a hot
# kernel has more instructions than tests/cuda_budgets.txt allows, or when bench/gpu_prediction.py predicts a longer step than before.
# usage: tests/cuda_build.sh [ARCHITECTURE...]   (default: 75 80 86 89 90 90a)
#        tests/cuda_build.sh --budgets           (hot kernels for sm_90 alone)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! "$nvcc" --version > /dev/null 2>&1; then
  echo "tests/cuda_build.sh: no nvcc: put it on PATH or set CUDACXX" >&2
  exit 1
fi
out=build/cuda_build
mkdir -p "$out"

# The tensor-core kernels for one architecture, judged; any other file for all at once, which share what they can.
check() {
  local source=$1 architecture=$2 failed=0 flags name cubin log targets=() flush=() spilled registers
  mapfile -t flags < kernels/cuda/nvcc_flags.txt
  name=$(basename "$source" .cu)
  cubin=$out/$name.$architecture.cubin
  log=$out/$name.$architecture.log
  if grep -q '^#define OCTET_FLUSH_SUBNORMALS' "$source"; then flush=(-ftz=true); fi
  if [ "$architecture" = all ]; then
    targets=(-fatbin)
    for architecture in $architectures; do
      # 86 and 89 have no instructions of their own here: the same intermediate code serves.
      targets+=(-gencode "arch=compute_${architecture/#8[69]/80},code=sm_$architecture")
    done
    architecture=${architectures// /, sm_}
  else
    targets=(-cubin "-arch=sm_$architecture")
  fi
  if ! "$nvcc" -std=c++20 "${flags[@]}" "${flush[@]}" -O3 -I. "${targets[@]}" -Xptxas -v -o "$cubin" "$source" > "$log" 2>&1; then
    cat "$log"
    echo "FAILED $source does not compile for sm_$architecture"
    return 1
  fi
  spilled=$(grep -oE '[1-9][0-9]* bytes spill (stores|loads)' "$log" | head -1)
  registers=$(grep -oE 'Used [0-9]+ registers' "$log" | grep -oE '[0-9]+' | sort -n | tail -1)
  echo "sm_$architecture $name: at most $registers registers${spilled:+, $spilled}"
  [ ${#targets[@]} = 2 ] || return 0  # all architectures at once: only for errors
  if [ -n "$spilled" ]; then
    echo "FAILED $source spills on sm_$architecture"
    failed=1
  fi
  case $name in conv_tiles | conv_weight) ;; *) return $failed ;; esac
  if [ "$name" = conv_weight ] && [ "$registers" -gt 128 ]; then
    echo "FAILED $source uses $registers registers on sm_$architecture: fewer blocks fit on a processor than are counted on"
    failed=1
  fi
  python3 tests/cuda_opcodes.py "$cubin" 24 || failed=1  # 32 of a warp, but 24 of the first layer, which leaves columns out
  return $failed
}

export -f check
hot=(kernels/cuda/{conv_tiles,conv_weight,conv_depthwise,affine,affine_reduce,pixels}.cu)  # tensor cores first
judged=false
case $("$nvcc" --version) in *'release 13.0'*) judged=true ;; esac  # of another compiler the counts are others
jobs=()
if [ "$*" = --budgets ]; then
  if ! $judged; then
    echo "skipped: the budgets are those of nvcc 13.0"
    exit 77
  fi
  architectures=90
else
  architectures=$*
  [ -n "$architectures" ] || architectures="75 80 86 89 90 90a"
  mapfile -t jobs < <(printf '%s all\n' kernels/cuda/*.cu | grep -vE '/conv_(tensor|tiles|weight)\.cu ')
fi
export nvcc out architectures
for architecture in $architectures; do
  alone=("${hot[@]}")
  [ "$architecture" = 90 ] || alone=("${hot[@]:0:3}")
  jobs=("${alone[@]/%/ $architecture}" "${jobs[@]}")
done
status=0
printf '%s\n' "${jobs[@]}" | xargs -P "$(nproc)" -L 1 bash -c 'check "$@"' bash || status=1
if $judged && [[ " $architectures " = *' 90 '* ]]; then
  cubins=("${hot[@]/#kernels\/cuda/$out}")
  python3 tests/cuda_opcodes.py --budgets tests/cuda_budgets.txt "${cubins[@]/%.cu/.90.cubin}" || status=1
  python3 bench/gpu_prediction.py --most 26 "$out" || status=1
fi
[ $status = 0 ]
