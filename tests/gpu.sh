#!/usr/bin/env bash
# What needs a GPU, in groups that take less than 9 minutes each. Made for the bundle of launch/bundle.sh, in whose folder it lies.
# usage: gpu.sh [GROUP...]   (default: all but cifar10, in this order)
#   probe     the device, its clocks and limits; whether bf16 tensor cores add products of codes exactly; the speed of copies
#   tests     every kernel test on the device, bit by bit against the CPU; one process each, since a fault ends a CUDA context
#   train     the same short trainings on the CPU and the GPU, recorded as graphs and not: weights must be equal, fp32 gradients close
#   speed     octet's benchmarks, the time of each kernel, and of each convolution
#   peers     PyTorch's step, where PyTorch is
#   sanitize  compute-sanitizer on some of the tests, and a longer training
#   cifar10   ResNet-20 for 30 epochs, INT8 and fp32, with OCTET_CIFAR10=DIR; takes longer than 9 minutes
# GPU_OUTPUT=FILE: the report (default: gpu.json). It covers all groups that have run; their logs lie in FILE.logs.
# GPU_JOBS=N: as many tests and short trainings at a time (default: 1).
# GPU_NO_CUDNN=1, GPU_NO_NCCL=1, GPU_NO_SANITIZER=1: it is not a failure that they are missing.
set -uo pipefail
output=$(realpath -m "${GPU_OUTPUT:-gpu.json}")
if [ -n "${OCTET_CIFAR10:-}" ]; then OCTET_CIFAR10=$(realpath -m "$OCTET_CIFAR10"); fi
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
if [ ! -x ./test_cuda_device ]; then
  echo "gpu.sh: run it in the bundle's folder (launch/bundle.sh makes one)" >&2
  exit 2
fi
groups=("$@")
if [ $# = 0 ]; then groups=(probe tests train speed peers sanitize); fi
for group in "${groups[@]}"; do
  case $group in
    probe | tests | train | speed | peers | sanitize | cifar10) ;;
    *) echo "gpu.sh: unknown group $group; fix: probe, tests, train, speed, peers, sanitize or cifar10" >&2; exit 2 ;;
  esac
done
jobs=${GPU_JOBS:-1}
case $jobs in
  0* | *[!0-9]*) echo "gpu.sh: GPU_JOBS is \"$jobs\"; fix: a number from 1 on" >&2; exit 2 ;;
esac
logs=$output.logs
mkdir -p "$logs"
export CUDA_MODULE_LOADING=EAGER  # kernels that are loaded on first use may fail while a graph is recorded

report() {  # writes what has run so far as one JSON; fails unless all of it passed
python3 - "$logs" "$output" << 'EOF'
import array, json, os, pathlib, re, statistics, struct, sys

logs, output = pathlib.Path(sys.argv[1]), sys.argv[2]
steps, checks = {}, {}
for status in sorted(logs.glob("*.status"), key=lambda path: path.stat().st_mtime):
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
    run = logs / ("run_" + status.stem) / "result.json"
    if run.exists():
        entry["run"] = json.loads(run.read_text())
    steps[status.stem] = entry

for name in [step.removesuffix("_cpu") for step in steps if step.startswith("train.") and step.endswith("_cpu")]:
    if name.startswith("train.fp32"):
        continue
    runs = ("cpu", "cuda", "eager", "again") if name == "train.resnet20" else ("cpu", "cuda")
    sums = [steps.get(f"{name}_{run}", {}).get("run", {}).get("weights_sha256") for run in runs]
    checks["weights_of_" + name.removeprefix("train.")] = None not in sums and len(set(sums)) == 1

def losses(name):
    metrics = logs / f"run_train.fp32_{name}" / "metrics.jsonl"
    records = map(json.loads, metrics.read_text().splitlines()) if metrics.exists() else ()
    return [record["loss"] for record in records if record["kind"] == "train"]

def biases(run):
    """{name: values} of the norms' biases, which start at zero: after one step they are the gradients, times the rate."""
    path = logs / f"run_train.{run}" / "weights.safetensors"
    if not path.exists():
        return {}
    content = path.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    tensors = json.loads(content[8:start])
    return {name: array.array("f", content[start + tensor["data_offsets"][0]:start + tensor["data_offsets"][1]])
            for name, tensor in tensors.items() if re.search(r"bn\d\.bias$", name)}

def median_difference(name, ours, theirs):
    mean_square = sum(value * value for value in theirs[name]) / len(theirs[name])
    return statistics.median(abs(a - b) for a, b in zip(ours[name], theirs[name])) / mean_square ** 0.5

# Sums in another order differ by 1e-6, operands shortened to TF32 by 1e-4 (2^-11 each). An input of ReLU within rounding of zero
# changes one channel, and from there every channel of the layers before it. So only the last block is compared, and medians.
fp32 = {name: losses(name) for name in ("cpu", "cuda", "graph")}
last_block = ("layer3.2.bn2.bias", "layer3.2.bn1.bias", "layer3.1.bn2.bias")
if "train.fp32_cpu" in steps:
    ours, theirs = biases("fp32_first_cuda"), biases("fp32_first_cpu")
    checks["fp32_first_gradients_close"] = all(
        name in ours and name in theirs and median_difference(name, ours, theirs) <= 1e-5 for name in last_block)
    checks["fp32_first_loss_close"] = all(
        len(found) == 5 and abs(found[0] - fp32["cpu"][0]) <= 1e-6 * fp32["cpu"][0] for found in fp32.values())
    checks["fp32_recorded_equal"] = len(fp32["graph"]) == 5 and fp32["graph"] == fp32["cuda"]
engines = []
if "train.fp32_cuda" in steps:
    text = (logs / "train.fp32_cuda.err").read_text(errors="replace")
    engines = [line for line in text.splitlines() if ", groups " in line]
    checks["cudnn"] = bool(engines) or "GPU_NO_CUDNN" in os.environ
if "sanitize.shapes" in steps:
    checks["sanitizer"] = "sanitize.memcheck" in steps or "GPU_NO_SANITIZER" in os.environ
failed = [name for name, step in steps.items() if step["exit"] != 0 and not name.startswith(("probe.", "peers."))]
failed += [name for name, passed in checks.items() if not passed]
pathlib.Path(output).write_text(json.dumps(
    {"passed": not failed, "failed": failed, "checks": checks, "fp32_losses": fp32, "fp32_convolutions": engines, "steps": steps},
    indent=2) + "\n")
sys.exit(bool(failed))
EOF
}

step() {  # NAME LIMIT_SECONDS COMMAND...: runs it within the group's time, keeps its output and status
  local name=$group.$1 limit=$2 start=$SECONDS
  shift 2
  echo "== $name" >&2
  rm -rf "$logs/run_$name"
  if [ $((deadline - SECONDS)) -lt "$limit" ]; then limit=$((deadline - SECONDS)); fi
  if [ "$limit" -gt 0 ]; then
    # octet answers SIGTERM at the end of a step, which a hung kernel never reaches.
    timeout -k 10 "$limit" "$@" > "$logs/$name.out" 2> "$logs/$name.err"
    echo "$? $((SECONDS - start))" > "$logs/$name.status"
  else
    : > "$logs/$name.out"
    echo "the group's time was over" > "$logs/$name.err"
    echo "124 0" > "$logs/$name.status"
  fi
  tail -n 3 "$logs/$name.out" "$logs/$name.err" >&2
  if [ "$jobs" = 1 ]; then report || true; fi
}
beside() {  # COMMAND...: beside others, if there is room for it
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  "$@" &
}
train() {  # NAME LIMIT_SECONDS CONFIG SETTING...
  local name=$1 limit=$2 config=$3 settings=()
  shift 3
  for setting in "$@"; do settings+=(--set "$setting"); done
  step "$name" "$limit" ./octet train "configs/$config.yaml" --set comm.timeout_seconds=60 "${settings[@]}" \
    --run "$logs/run_$group.$name"
}
both() {  # NAME CONFIG SETTING...: on the CPU and on the GPU
  local name=$1 config=$2
  shift 2
  beside train "${name}_cpu" 120 "$config" "$@"
  beside train "${name}_cuda" 60 "$config" "$@" backend.device=cuda
}
bench() {  # NAME LIMIT_SECONDS CONFIG STEPS SETTING...
  local name=$1 limit=$2 config=$3 steps=$4 settings=()
  shift 4
  for setting in "$@"; do settings+=(--set "$setting"); done
  step "$name" "$limit" ./octet bench "configs/$config.yaml" --json --steps "$steps" --set backend.device=cuda "${settings[@]}"
}

# Python's packages bring cuDNN to a place where the loader does not look.
packages=$(python3 -c 'import glob, site; print(":".join(p for s in site.getsitepackages() for p in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null)
if [ -n "$packages" ]; then export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$packages"; fi

for group in "${groups[@]}"; do
  deadline=$((SECONDS + 520))
  case $group in
    probe)
      step device 30 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
      step clocks 30 nvidia-smi -q -d CLOCK,POWER,MEMORY
      step bf16 30 ./gpu_probe
      ;;
    tests)
      suite=
      while read -r line; do
        case $line in
          *.) suite=$line ;;
          *) beside step "$suite$line" "${GPU_TEST_SECONDS:-60}" ./test_cuda_device --gtest_brief=1 "--gtest_filter=$suite$line" < /dev/null ;;
        esac
      done < <(./test_cuda_device --gtest_list_tests | sed -n '/^[A-Za-z]*\.$/p; s/^  //p')
      wait
      ;;
    train)
      short=(train.steps=20 data.samples=2048)
      both resnet20 shapes_resnet20_unified_int8 "${short[@]}"
      beside train resnet20_eager 60 shapes_resnet20_unified_int8 "${short[@]}" backend.device=cuda backend.graph=false
      beside train resnet20_again 60 shapes_resnet20_unified_int8 "${short[@]}" backend.device=cuda
      # Wide tiles, strides, pools, depthwise layers, concatenations: the sizes that a unit test lacks.
      small=(train.steps=4 data.batch=8 data.samples=64)
      both resnet50 synthetic_resnet50_unified_int8 "${small[@]}" data.image_size=64
      both resnet50_int8_storage synthetic_resnet50_unified_int8 "${small[@]}" data.image_size=64 storage=int8
      both resnet50_exact synthetic_resnet50_unified_int8 "${small[@]}" data.image_size=64 comm.exchange=exact train.norm_group=8
      both mobilenet_v2 synthetic_resnet50_unified_int8 "${small[@]}" data.image_size=96 model.name=mobilenet_v2
      both inception_v3 synthetic_resnet50_unified_int8 "${small[@]}" data.image_size=96 model.name=inception_v3
      both alexnet synthetic_resnet50_unified_int8 "${small[@]}" data.image_size=64 model.name=alexnet
      fp32=(train.steps=5 train.lr=0.01 train.log_every_steps=1 data.samples=512)
      beside train fp32_cpu 60 shapes_resnet20_fp32 "${fp32[@]}"
      # With check_kernels the run names cuDNN's engine for each convolution. The first use of cuDNN loads some hundred MB.
      beside train fp32_cuda 180 shapes_resnet20_fp32 "${fp32[@]}" backend.device=cuda backend.check_kernels=true
      wait
      for device in cpu cuda; do
        train fp32_first_$device 180 shapes_resnet20_fp32 train.steps=1 train.lr=0.01 train.decay=0 data.samples=512 backend.device=$device
      done
      train fp32_graph 180 shapes_resnet20_fp32 "${fp32[@]}" backend.device=cuda
      ;;
    speed)
      large=(data.batch=256 data.samples=512)
      bench resnet50_256 120 synthetic_resnet50_unified_int8 20 "${large[@]}" data.workers=8
      bench resnet50_eager 120 synthetic_resnet50_unified_int8 10 "${large[@]}" data.workers=8 backend.graph=false
      bench resnet50_64 60 synthetic_resnet50_unified_int8 10 data.batch=64 data.samples=128
      bench resnet50_kernels 120 synthetic_resnet50_unified_int8 5 "${large[@]}" backend.check_kernels=true
      for period in 1 1000; do
        bench "resnet50_period_$period" 60 synthetic_resnet50_unified_int8 20 "${large[@]}" policy.clip.period=$period
      done
      bench resnet20 60 cifar10_resnet20_unified_int8 100 data.name=synthetic data.image_size=32
      step kernels 240 ./octet bench kernels --json --set backend.device=cuda
      ;;
    peers)
      for precision in bf16 tf32 fp32; do
        step "pytorch_$precision" 120 python3 bench/pytorch_gpu_step.py resnet50 --precision $precision
      done
      step pytorch_compiled 240 python3 bench/pytorch_gpu_step.py resnet50 --precision bf16 --compile
      ;;
    sanitize)
      sanitizer=(compute-sanitizer --target-processes all --error-exitcode 9)
      if command -v compute-sanitizer > /dev/null; then
        step memcheck 180 "${sanitizer[@]}" --tool memcheck ./test_cuda_device --gtest_brief=1 \
          '--gtest_filter=CudaConvolution.LargerCodes*:CudaPasses.Pools:CudaPasses.Quantize'
        step racecheck 120 "${sanitizer[@]}" --tool racecheck ./test_cuda_device --gtest_brief=1 '--gtest_filter=CudaPasses.SoftmaxLoss'
        step synccheck 60 "${sanitizer[@]}" --tool synccheck ./test_cuda_device --gtest_brief=1 \
          '--gtest_filter=CudaPasses.SoftmaxLoss:CudaConvolution.LargerCodes*'
        step initcheck 120 "${sanitizer[@]}" --tool initcheck ./test_cuda_device --gtest_brief=1 \
          '--gtest_filter=CudaConvolution.LargerCodes*:CudaPasses.Pools:CudaPasses.AffineBackward'
      fi
      train shapes 200 shapes_resnet20_unified_int8 backend.device=cuda
      ;;
    cifar10)
      deadline=$((SECONDS + 1200))
      for policy in unified_int8 fp32; do
        train $policy 600 "cifar10_resnet20_$policy" backend.device=cuda "data.root=${OCTET_CIFAR10:?the folder of the data set}"
      done
      ;;
  esac
done

if report; then
  echo "$output: passed"
else
  echo "$output: FAILED"
  exit 1
fi
