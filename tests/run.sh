#!/usr/bin/env bash
# Installs what is missing, builds, runs every test, and ends with one line: N passed, N failed, N skipped.
# usage: tests/run.sh [--quick]
#   --quick   the release build only; otherwise also the unit tests under the address and undefined-behaviour sanitizers,
#             and the tests with threads of their own under the thread sanitizer
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
quick=false
case "${1:-}" in
  '') ;;
  --quick) quick=true ;;
  *) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
launch/setup.sh || exit 1

# Stages that start later than this are skipped, and counted as skipped: the whole run stays under 30 minutes on two slow cores.
last_start_seconds=1000
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_rmaps_base_oversubscribe=1
# Libraries that are not ours keep memory until the end, and their threads are invisible to the thread sanitizer.
export ASAN_OPTIONS=detect_stack_use_after_return=1 "LSAN_OPTIONS=suppressions='$PWD/tests/leaks.supp':print_suppressions=0"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1
# A new build gets one GPU architecture: a test of its own (cuda_build) compiles them all. The next build after this has them again.
if [ -z "${CUDAARCHS:-}" ] && [ ! -e build/release/CMakeCache.txt ]; then
  export CUDAARCHS=90
  trap 'unset CUDAARCHS; cmake --preset release -U CMAKE_CUDA_ARCHITECTURES > /dev/null' EXIT
fi
# Tests with real data skip without it. A folder `shared` beside the project may hold an unpacker.
if [ -z "${OCTET_CIFAR10:-}" ] && [ -x ../shared/data/unpack ] && ../shared/data/unpack build/data cifar10; then
  export OCTET_CIFAR10=$PWD/build/data/cifar-10-batches-bin
fi
passed=0 failed=0 skipped=0

# stage NAME PRESET TARGETS CTEST_OPTIONS...: builds and tests one preset and adds to the three counts.
stage() {
  local name=$1 preset=$2 targets=$3 counts
  shift 3
  echo "== $name"
  if [ "$SECONDS" -gt "$last_start_seconds" ]; then
    echo "skipped: $SECONDS s have passed"
    skipped=$((skipped + 1))
    return
  fi
  # shellcheck disable=SC2086  # several targets
  if ! { cmake --preset "$preset" > /dev/null && ninja -C "build/$preset" $targets; }; then
    echo "the $preset build failed"
    failed=$((failed + 1))
    return
  fi
  rm -f "build/$preset/results.xml"
  ctest --test-dir "build/$preset" -j 2 --output-on-failure --output-junit results.xml --test-output-size-passed 9999999 \
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
  # Not the readers of data, which have no threads.
  GTEST_FILTER='-Shapes*:Cifar10*' stage "thread sanitizer: loader and communication" tsan "test_data test_comm" -R '^(data|comm)' -LE 'slow|integration'
  stage "address and undefined-behaviour sanitizers: unit tests" asan unit_tests -LE 'slow|integration'
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
