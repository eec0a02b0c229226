#!/usr/bin/env bash
# Installs missing packages, builds, runs every test, and ends with one line: N passed, N failed, N skipped.
# usage: tests/run.sh [--quick]
#   --quick   the release build only. Otherwise the unit tests run also under the address and undefined-behaviour
#             sanitizers, tests that start threads also under the thread sanitizer, and tests/lint.sh checks changed files.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
quick=false
case "${1:-}" in
  '') ;;
  --quick) quick=true ;;
  *) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
launch/setup.sh || exit 1
# Without Slurm, or on a machine that cannot have it, its test is skipped.
[ "$(id -u)" != 0 ] || launch/setup.sh --slurm || echo "Slurm could not be installed"

# A stage that would start later than this is counted as skipped, so that slow machines end in time.
last_start_seconds=1150
last_lint_seconds=1350
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_rmaps_base_oversubscribe=1
# Other libraries keep memory until the end, and the thread sanitizer cannot see their threads.
export ASAN_OPTIONS=detect_stack_use_after_return=1 "LSAN_OPTIONS=suppressions='$PWD/tests/leaks.supp':print_suppressions=0"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1
# A new build gets one GPU architecture, because the test cuda_build compiles all of them. The trap restores them for later builds.
if [ -z "${CUDAARCHS:-}" ] && [ ! -e build/release/CMakeCache.txt ]; then
  export CUDAARCHS=90
  trap 'unset CUDAARCHS; cmake --preset release -U CMAKE_CUDA_ARCHITECTURES > /dev/null' EXIT
fi
# Tests with real data are skipped without it. A folder `shared` beside the project may hold a script that unpacks it.
if [ -z "${OCTET_CIFAR10:-}" ] && [ -x ../shared/data/unpack ] && ../shared/data/unpack build/data cifar10; then
  export OCTET_CIFAR10=$PWD/build/data/cifar-10-batches-bin
fi
if [ -z "${OCTET_COCO_TINY:-}" ] && [ -x ../shared/data/unpack ] && ../shared/data/unpack build/data coco-tiny bccd-voc; then
  export OCTET_COCO_TINY=$PWD/build/data/coco-tiny OCTET_BCCD=$PWD/build/data/bccd-voc/BCCD
fi
passed=0 failed=0 skipped=0

# stage NAME PRESET TARGETS CTEST_OPTIONS...: builds and tests one preset, and adds to the three counts.
stage() {
  local name=$1 preset=$2 targets=$3 counts
  shift 3
  echo "== $name"
  if [ "$SECONDS" -gt "$last_start_seconds" ]; then
    echo "skipped: $SECONDS s have passed"
    skipped=$((skipped + 1))
    return
  fi
  local werror=OFF  # the other presets join files and instrument them, which makes compilers warn of what is not there
  [ "$preset" = release ] && werror=ON
  # shellcheck disable=SC2086  # several targets
  if ! { cmake --preset "$preset" -DOCTET_WERROR=$werror > /dev/null && ninja -C "build/$preset" $targets; }; then
    echo "the $preset build failed"
    failed=$((failed + 1))
    return
  fi
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

stage "release: all tests" release all
if ! $quick; then
  # The readers of data are left out: they start no threads.
  GTEST_FILTER='-Shapes*:Cifar10*:Coco*:Voc*:Results*:Annotations*' stage "thread sanitizer: loader and communication" tsan "test_data test_comm" -R '^(data|comm)' -LE 'slow|integration'
  last_start_seconds=950  # it takes about eight minutes
  stage "address and undefined-behaviour sanitizers: unit tests" asan unit_tests -LE 'slow|integration'
  echo "== lint: changed files"
  if ! command -v clang-tidy > /dev/null || [ "$SECONDS" -gt "$last_lint_seconds" ]; then
    echo "skipped: clang-tidy is not installed, or $SECONDS s are too late"
    skipped=$((skipped + 1))
  elif tests/lint.sh --seconds 90; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
