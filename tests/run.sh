#!/usr/bin/env bash
# Installs missing packages, builds, runs tests, and ends with one line: N passed, N failed, N skipped.
# usage: tests/run.sh [--stage NAME]... [--quick] [--nightly]
#   without arguments: the stages release, tsan and asan
#   --stage release  every test of the release build but the nightly ones
#   --stage tsan     tests of the loader and of communication, which start threads, under the thread sanitizer
#   --stage asan     the unit tests of files, data and communication under the address and undefined-behaviour sanitizers
#   --stage asan_long  the other unit tests under them, whose kernels and networks take long to build and to run; in the
#                    release build unmapped pages surround the memory of kernels
#   --stage nightly  what takes long: races of the CUDA kernels, kernels for every GPU, long training, Slurm's parameters
#   --stage lint     clang-tidy on the files that differ from the last tag (tests/lint.sh)
#   --quick          the stage release alone
#   --nightly        the stages nightly, asan_long and lint
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
usage() {  # [what is wrong]
  [ $# -eq 0 ] || echo "tests/run.sh: $1" >&2
  sed -n '3,13s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
stages=()
while [ $# -gt 0 ]; do
  case $1 in
    --quick) stages+=(release) ;;
    --nightly) stages+=(nightly asan_long lint) ;;
    --stage)
      shift
      case ${1:-} in
        release | tsan | asan | asan_long | nightly | lint) stages+=("$1") ;;
        *) usage "there is no stage '${1:-}'" ;;
      esac
      ;;
    --help | -h) usage ;;
    *) usage "there is no option '$1'" ;;
  esac
  shift
done
[ ${#stages[@]} -gt 0 ] || stages=(release tsan asan)

launch/setup.sh || exit 1
# Without Chromium its test is skipped. It is installed in some ten seconds.
case " ${stages[*]} " in
  *' release '*) [ "$(id -u)" != 0 ] || launch/setup.sh --browser || echo "Chromium could not be installed" ;;
esac
# Without a compiler for aarch64 and qemu their tests are skipped.
case " ${stages[*]} " in
  *' release '* | *' nightly '*) [ "$(id -u)" != 0 ] || launch/setup.sh --cross || echo "the cross compiler could not be installed" ;;
esac
# Without compilers for boards and microcontrollers their tests are skipped, or install what they need.
case " ${stages[*]} " in
  *' nightly '*) [ "$(id -u)" != 0 ] || launch/setup.sh --board --arm || echo "what boards need could not be installed" ;;
esac
# Without Slurm, or on a machine that cannot have it, its test is skipped.
case " ${stages[*]} " in
  *' release '* | *' nightly '*) [ "$(id -u)" != 0 ] || launch/setup.sh --slurm || echo "Slurm could not be installed" ;;
esac

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_rmaps_base_oversubscribe=1
# Other libraries keep memory until the end, and the thread sanitizer cannot see their threads.
export ASAN_OPTIONS=detect_stack_use_after_return=1 "LSAN_OPTIONS=suppressions='$PWD/tests/leaks.supp':print_suppressions=0"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1
# A new build gets the intermediate code of one GPU architecture, which a GPU's driver translates: the tests cuda_build and cuda_budgets
# compile kernels for GPUs. The trap restores all architectures for later builds.
if [ -z "${CUDAARCHS:-}" ] && [ ! -e build/release/CMakeCache.txt ]; then
  export CUDAARCHS=90-virtual
  trap 'unset CUDAARCHS; [ ! -e build/release/CMakeCache.txt ] || cmake --preset release -U CMAKE_CUDA_ARCHITECTURES > /dev/null' EXIT
fi
# Tests with real data are skipped without it. A folder `shared` beside the project may hold a script that unpacks it.
if [ -z "${OCTET_CIFAR10:-}" ] && [ -x ../shared/data/unpack ] && ../shared/data/unpack build/data cifar10; then
  export OCTET_CIFAR10=$PWD/build/data/cifar-10-batches-bin
fi
if [ -z "${OCTET_COCO_TINY:-}" ] && [ -x ../shared/data/unpack ] && ../shared/data/unpack build/data coco-tiny bccd-voc; then
  export OCTET_COCO_TINY=$PWD/build/data/coco-tiny OCTET_BCCD=$PWD/build/data/bccd-voc/BCCD
fi
mkdir -p build
for stage in "${stages[@]}"; do rm -f "build/$stage.built"; done
passed=0 failed=0 skipped=0

# build STAGE: configures and builds what the stage runs.
build() {
  case $1 in
    release) cmake --preset release -DOCTET_WERROR=ON -DOCTET_PYTHON=AUTO > /dev/null && ninja -C build/release ;;
    # The other presets join files and instrument them, which makes compilers warn of what is not there.
    tsan) cmake --preset tsan -DOCTET_WERROR=OFF > /dev/null && ninja -C build/tsan test_data test_comm ;;
    asan) cmake --preset asan -DOCTET_WERROR=OFF > /dev/null && ninja -C build/asan unit_tests ;;
    asan_long) cmake --preset asan -DOCTET_WERROR=OFF > /dev/null && ninja -C build/asan long_unit_tests ;;
    nightly) cmake --preset release -DOCTET_WERROR=ON > /dev/null && ninja -C build/release nightly_tests ;;
    lint)  # needs the headers that the build makes
      local headers
      mapfile -t headers < <(git ls-files 'src/*.proto' | sed 's|^|generated/|; s|proto$|pb.h|')
      cmake --preset release > /dev/null && ninja -C build/release octet_version "${headers[@]}"
      ;;
  esac
}

# run PRESET CTEST_OPTIONS...: runs tests of a preset, and adds to the three counts.
run() {
  local preset=$1 counts
  shift
  rm -f "build/$preset/results.xml"
  # Three at a time on two cores, because many tests wait: for an end, for a limit of time.
  ctest --test-dir "build/$preset" -j 3 --output-on-failure --output-junit results.xml --test-output-size-passed 9999999 \
    --test-output-size-failed 9999999 "$@"
  if [ ! -s "build/$preset/results.xml" ]; then
    echo "ctest wrote no results"
    failed=$((failed + 1))
    return
  fi
  read -ra counts < <(awk -f tests/count.awk "build/$preset/results.xml")
  passed=$((passed + counts[0])) failed=$((failed + counts[1])) skipped=$((skipped + counts[2]))
}

# Of thousands of pictures, left out where memory and threads are watched.
statistics='Shapes.AreNotLinearlySeparable:ShapesDetection.HaveObjects*:DetectionFiles.AreMirrored*'
check() {
  case $1 in
    release) run release -LE nightly ;;
    tsan) GTEST_FILTER=-$statistics run tsan -R '^(data|comm)' -LE 'slow|integration|nightly' ;;
    asan) GTEST_FILTER=-$statistics run asan -LE 'slow|integration|nightly|long' ;;
    asan_long) run asan -L long -LE 'slow|integration|nightly' ;;
    nightly) run release -L nightly ;;
    lint)
      if ! command -v clang-tidy > /dev/null; then
        echo "skipped: clang-tidy is not installed (launch/setup.sh --dev installs it)"
        skipped=$((skipped + 1))
      elif tests/lint.sh; then
        passed=$((passed + 1))
      else
        failed=$((failed + 1))
      fi
      ;;
  esac
}

# While tests run, the later stages are built, with what tests leave of the processors.
build "${stages[0]}"
echo $? > "build/${stages[0]}.built"
(
  renice -n 19 "$BASHPID" > /dev/null
  for stage in "${stages[@]:1}"; do
    build "$stage" > "build/$stage.log" 2>&1
    echo $? > "build/$stage.built"
  done
) &
builder=$!
for stage in "${stages[@]}"; do
  echo "== $stage"
  until [ -s "build/$stage.built" ] || ! kill -0 $builder 2> /dev/null; do sleep 1; done
  if [ "$(cat "build/$stage.built")" = 0 ]; then
    check "$stage"
  else
    [ ! -e "build/$stage.log" ] || cat "build/$stage.log"
    echo "the build of $stage failed"
    failed=$((failed + 1))
  fi
  echo "== $stage ended after $SECONDS s"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
