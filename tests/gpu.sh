#!/usr/bin/env bash
# What can only be done with a GPU, in one go; made for the bundle of launch/bundle.sh, in whose folder it lies. Runs every
# kernel test on the device (bit by bit against the CPU), compute-sanitizer on a part of them, the same short training on
# CPU and GPU, recorded as graphs and not (all weights must be equal; with the fp32 policy losses must be close), a longer one, the
# kernels' speed, and the benchmark against PyTorch where PyTorch is.
# usage: gpu.sh [OUTPUT.json]   (default: gpu.json)    GPU_QUICK=1: without the longer training and the benchmark
#        OCTET_CIFAR10=DIR: also ResNet-20 on CIFAR-10, 30 epochs, INT8 and fp32 (some minutes; not with GPU_QUICK)
#        GPU_NO_CUDNN=1, GPU_NO_SANITIZER=1: it is not a failure that they are not there
set -uo pipefail
output=$(realpath -m "${1:-gpu.json}")
if [ -n "${OCTET_CIFAR10:-}" ]; then OCTET_CIFAR10=$(realpath -m "$OCTET_CIFAR10"); fi
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
if [ ! -x ./test_cuda_device ]; then
  echo "gpu.sh: run it in the bundle's folder (launch/bundle.sh makes one)" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

report() {  # what has run so far, as one JSON; fails unless all of it is as it must be
python3 - "$work" "$output" << 'EOF'
import json, os, pathlib, sys

work, output = pathlib.Path(sys.argv[1]), sys.argv[2]
report, sums = {}, {}
for status in sorted(work.glob("*.status")):
    code, seconds = map(int, status.read_text().split())
    out, err = (status.with_suffix(kind).read_text(errors="replace") for kind in (".out", ".err"))
    entry = {"exit": code, "seconds": seconds}
    lines = out.strip().splitlines()
    try:
        entry["result"] = json.loads(lines[-1])
    except (ValueError, IndexError):
        entry["output"] = lines[-120:]
    if code != 0:
        entry["errors"] = err.strip().splitlines()[-30:]
    report[status.stem] = entry
for name in ("run_cpu", "run_cuda", "run_eager", "run_shapes", "run_cifar10_unified_int8", "run_cifar10_fp32"):
    result = work / name / "result.json"
    if result.exists():
        report[name] = json.loads(result.read_text())
        sums[name] = report[name]["weights_sha256"]
report["weights_equal"] = "run_cpu" in sums and sums["run_cpu"] == sums.get("run_cuda") == sums.get("run_eager")

def losses(name):
    metrics = work / f"run_fp32_{name}" / "metrics.jsonl"
    records = map(json.loads, metrics.read_text().splitlines()) if metrics.exists() else ()
    return [record["loss"] for record in records if record["kind"] == "train"]

# Five steps at a small rate, after which sums in another order differ by 4e-8 of the loss: 1e-5 leaves room for Winograd's
# transforms in f32, and operands shortened to TF32 (2^-11) show.
report["fp32_losses"] = {name: losses(name) for name in ("cpu", "cuda", "graph")}
cpu = report["fp32_losses"]["cpu"]
report["fp32_losses_close"] = len(cpu) == 5 and all(
    len(found) == 5 and all(abs(a - b) <= 1e-5 * a for a, b in zip(cpu, found)) for found in report["fp32_losses"].values())
errors = work / "train_fp32_cuda.err"
if errors.exists():
    report["fp32_convolutions"] = [line for line in errors.read_text(errors="replace").splitlines() if ", groups " in line]
cudnn = bool(report.get("fp32_convolutions")) or "GPU_NO_CUDNN" in os.environ
sanitizer = "memcheck" in report or "GPU_NO_SANITIZER" in os.environ
report["failed"] = [name for name, step in report.items() if isinstance(step, dict) and step.get("exit", 0) != 0
                    and name != "device" and not name.startswith("pytorch")]
report["passed"] = (report["weights_equal"] and report["fp32_losses_close"] and cudnn and sanitizer and not report["failed"])
pathlib.Path(output).write_text(json.dumps(report, indent=2) + "\n")
sys.exit(not report["passed"])
EOF
}

step() {  # NAME LIMIT_SECONDS COMMAND...: runs it, keeps its output and status
  local name=$1 limit=$2 start=$SECONDS
  shift 2
  echo "== $name" >&2
  timeout "$limit" "$@" > "$work/$name.out" 2> "$work/$name.err"
  echo "$? $((SECONDS - start))" > "$work/$name.status"
  tail -n 3 "$work/$name.out" "$work/$name.err" >&2
  report || true
}

# Where Python's packages brought cuDNN, the loader does not look on its own.
packages=$(python3 -c 'import glob, site; print(":".join(p for s in site.getsitepackages() for p in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null)
if [ -n "$packages" ]; then export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$packages"; fi
step device 30 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
step tests 240 ./test_cuda_device --gtest_brief=1
if command -v compute-sanitizer > /dev/null; then
  step memcheck 120 compute-sanitizer --target-processes all --tool memcheck --error-exitcode 9 ./test_cuda_device --gtest_brief=1 \
    '--gtest_filter=CudaConvolution.LargerCodes*:CudaPasses.Pools'
  step racecheck 120 compute-sanitizer --target-processes all --tool racecheck --error-exitcode 9 ./test_cuda_device --gtest_brief=1 \
    '--gtest_filter=CudaConvolution.LargerCodes*:CudaPasses.SoftmaxLoss'
fi
recipe=configs/shapes_resnet20_unified_int8.yaml
short=(--set train.steps=20 --set data.samples=2048)
step train_cpu 120 ./octet train $recipe "${short[@]}" --run "$work/run_cpu"
step train_cuda 120 ./octet train $recipe "${short[@]}" --set backend.device=cuda --run "$work/run_cuda"
step train_eager 120 ./octet train $recipe "${short[@]}" --set backend.device=cuda --set backend.graph=false --run "$work/run_eager"
# By cuDNN, where it is installed; checked, the run names the engine of each convolution; else its steps are recorded.
for run in "cpu cpu true" "cuda cuda true" "graph cuda false"; do
  read -r name device checked <<< "$run"
  step "train_fp32_$name" 60 ./octet train configs/shapes_resnet20_fp32.yaml --set "backend.device=$device" \
    --set "backend.check_kernels=$checked" --set train.steps=5 --set train.lr=0.01 --set train.log_every_steps=1 \
    --set data.samples=512 --run "$work/run_fp32_$name"
done
if [ -z "${GPU_QUICK:-}" ]; then
  step train_shapes 200 ./octet train $recipe --set backend.device=cuda --run "$work/run_shapes"
  for batch in 64 256; do
    step "octet_resnet50_$batch" 150 ./octet bench configs/synthetic_resnet50_unified_int8.yaml --json --steps 10 \
      --set backend.device=cuda --set data.batch=$batch --set data.samples=$((2 * batch))
  done
  step octet_resnet50_kernels 150 ./octet bench configs/synthetic_resnet50_unified_int8.yaml --json --steps 5 \
    --set backend.device=cuda --set backend.check_kernels=true --set data.batch=256 --set data.samples=512
  for period in 1 1000; do
    step "octet_resnet50_period_$period" 150 ./octet bench configs/synthetic_resnet50_unified_int8.yaml --json --steps 20 \
      --set backend.device=cuda --set data.batch=256 --set data.samples=512 --set policy.clip.period=$period
  done
  step octet_resnet20 60 ./octet bench configs/cifar10_resnet20_unified_int8.yaml --json --steps 100 \
    --set backend.device=cuda --set data.name=synthetic --set data.image_size=32
  step kernels 120 ./octet bench kernels --json --set backend.device=cuda
  if [ -n "${OCTET_CIFAR10:-}" ]; then
    for policy in unified_int8 fp32; do
      step "cifar10_$policy" 600 ./octet train "configs/cifar10_resnet20_$policy.yaml" --set backend.device=cuda \
        --set "data.root=$OCTET_CIFAR10" --run "$work/run_cifar10_$policy"
    done
  fi
  for precision in fp32 tf32 bf16; do
    step "pytorch_resnet50_$precision" 120 python3 bench/pytorch_gpu_step.py resnet50 --precision $precision
  done
  step pytorch_resnet50_compiled 240 python3 bench/pytorch_gpu_step.py resnet50 --precision bf16 --compile
fi

if report; then
  echo "$output: passed"
else
  echo "$output: FAILED"
  exit 1
fi
