#!/usr/bin/env bash
# Fifteen minutes on one GPU: does a new build compute the CPU's bits, and is its step faster than an old build's, kernel by kernel?
# usage: gpu_step.sh OLD NEW [OUTPUT]   folders of two unpacked bundles (launch/bundle.sh); OUTPUT (default: gpu_step): a folder
# It stops where tests of the new build fail. OUTPUT/summary.txt has the figures; the logs lie beside it. Both builds run on the same
# card, by turns. PyTorch and ncu are used where they are. GPU_STEP_SMALL=1: tiny sizes, to try the script itself.
set -uo pipefail
if [ $# -lt 2 ] || [ ! -x "$1/octet" ] || [ ! -x "$2/octet" ]; then
  sed -n '2,6s/^# //p' "$0" >&2
  exit 2
fi
old=$(realpath "$1") new=$(realpath "$2") output=$(realpath -m "${3:-gpu_step}")
mkdir -p "$output"
export CUDA_MODULE_LOADING=EAGER
resnet=(--set data.batch=256 --set data.samples=512 --set data.workers=8) mobile=("${resnet[@]}" --set model.name=mobilenet_v2) steps=20
if [ -n "${GPU_STEP_SMALL:-}" ]; then
  resnet=(--set data.batch=2 --set data.samples=4 --set data.image_size=32) mobile=("${resnet[@]}" --set model.name=mobilenet_v2) steps=2
fi
summary=$output/summary.txt
: > "$summary"
say() { echo "$*" | tee -a "$summary"; }

limited() { # NAME SECONDS COMMAND...: keeps its output; the summary gets its exit status and seconds
  local name=$1 seconds=$2 status=0 start=$SECONDS
  shift 2
  timeout -k 5 "$seconds" "$@" > "$output/$name.out" 2> "$output/$name.err" || status=$?
  say "$name: exit $status after $((SECONDS - start)) s"
  return $status
}
bench() { # NAME FOLDER SETTING...
  local name=$1 folder=$2
  shift 2
  (cd "$folder" && limited "$name" 60 ./octet bench configs/synthetic_resnet50_unified_int8.yaml --json --steps $steps \
    --set backend.device=cuda "$@") || return
  python3 - "$output/$name.out" << 'EOF' | tee -a "$summary"
import json, sys
result = json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])
print(f"  step {result['step_ms']:.2f} ms, least {result['step_ms_min']:.2f}, {result['images_per_second']:.0f} images/s")
for kernel in sorted(result.get("kernels", []), key=lambda k: -k["ms"])[:25]:
    print(f"  {kernel['ms']:8.3f} ms {kernel['calls']:7.1f} calls  {kernel['name'][:110]}")
EOF
}

limited device 20 nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv,noheader && say "$(cat "$output/device.out")"
limited probe 30 "$new/gpu_probe" && say "$(cat "$output/probe.out")"
if [ -x "$new/gpu.sh" ]; then
  GPU_OUTPUT=$output/tests.json GPU_JOBS=12 limited tests 150 "$new/gpu.sh" tests || { say "the new build's tests fail: see tests.json"; exit 1; }
fi
for round in 1 2; do
  bench "resnet50_old_$round" "$old" "${resnet[@]}"
  bench "resnet50_new_$round" "$new" "${resnet[@]}"
done
for build in old new; do bench "kernels_$build" "${!build}" "${resnet[@]}" --set backend.check_kernels=true; done
for device in cpu cuda; do
  (cd "$new" && limited "weights_$device" 90 ./octet train configs/synthetic_resnet50_unified_int8.yaml --set train.steps=4 \
    --set data.batch=8 --set data.samples=64 --set data.image_size=64 --set "backend.device=$device" --run "$output/run_$device")
done
sums=$(grep -oh '"weights_sha256": *"[0-9a-f]*"' "$output"/run_{cpu,cuda}/result.json 2> /dev/null | sort -u | wc -l)
if [ "$sums" = 1 ]; then say "weights: the CPU's bits"; else say "weights: NOT the CPU's bits"; fi
bench mobilenet_old "$old" "${mobile[@]}"
bench mobilenet_new "$new" "${mobile[@]}"
if python3 -c 'import torch; torch.cuda.init()' 2> /dev/null; then
  (cd "$new" && limited pytorch_compiled 150 python3 bench/pytorch_gpu_step.py resnet50 --precision bf16 --compile) && tail -1 "$output/pytorch_compiled.out" | tee -a "$summary"
fi
if command -v ncu > /dev/null; then # issue, memory, bank conflicts and stalls of the kernels that the prediction misses most
  for kernel in gather_kernel gather_tiles encode_eights; do
    (cd "$new" && limited "ncu_$kernel" 90 ncu --set full --kernel-name "regex:$kernel" --launch-skip 60 --launch-count 2 ./octet bench \
      configs/synthetic_resnet50_unified_int8.yaml --steps 2 --set backend.device=cuda --set backend.graph=false "${resnet[@]}")
  done
fi
[ "$sums" = 1 ]
