#!/usr/bin/env bash
# GCC's OpenMP ends threads when a parallel region is smaller than the one before, and creates others for the next larger
# one. Loops that ask for as many threads as they have work (num_threads(min(threads, pieces))) start thousands of threads.
#
# Versions: libgomp of GCC 12.2.0 (Debian 12), beside intel-openmp 2025.3.0.
# Documented: the OpenMP specification leaves the lifetime of idle threads to the implementation; libgomp's manual describes
#   how idle threads wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT), not that a smaller team ends them.
# Seen: regions of 8 and 4 threads in turn, 200 times: 804 threads in all (4 new ones for each region of 8). Intel's runtime,
#   loaded into the same program: 8. Regions of 8 and 1 in turn: 8 with both, since a region of one starts no team.
# For training: with 16 threads, a step of many small loops pays for hundreds of thread starts. Ask for all threads or for one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet intel-openmp==2025.3.0
cat > teams.c <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int seen[1 << 16], count;
static void note(void) {
  const int id = gettid();
#pragma omp critical
  {
    int i = 0;
    while (i < count && seen[i] != id) ++i;
    if (i == count) seen[count++] = id;
  }
}
int main(int n, char** argument) {
  for (int i = 0; i < 200; ++i) {
#pragma omp parallel num_threads(8)
    note();
#pragma omp parallel num_threads(atoi(argument[1]))
    note();
  }
  printf("%d\n", count);
  return n - 2;
}
C
gcc -O2 -fopenmp teams.c -o teams
echo "gcc $(gcc -dumpfullversion)"
intel=$(find venv -name libiomp5.so | head -1)
small=$(./teams 4) same=$(./teams 8) one=$(./teams 1)
small_intel=$(LD_PRELOAD=$PWD/$intel ./teams 4)
echo "regions of 8 and 4 threads in turn: $small threads in all; Intel's runtime: $small_intel"
echo "regions of 8 and 8: $same; of 8 and 1: $one"
[ "$small" -gt 400 ] && [ "$small_intel" = 8 ] && [ "$same" = 8 ] && [ "$one" = 8 ] || { echo "the behaviour has changed"; exit 1; }
