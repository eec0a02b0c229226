#!/usr/bin/env bash
# Injects faults into real trainings and writes docs/results/faults.md.
# usage: tests/faults/run.sh [--quick] [--only REGEX] [--list]
#   --quick       a few faults in less than 90 seconds, as a test; writes nothing
#   --only REGEX  only faults whose names match; the other rows of the page stay
#   --list        prints the names of the faults
# environment: OCTET  the program (default: build/release/octet of this checkout)
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
isolate=()  # mounts of small disks that vanish with the run
if [ "$(id -u)" = 0 ] && unshare --mount true 2> /dev/null; then isolate=(env FAULT_MOUNTS=1 unshare --mount); fi
exec "${isolate[@]}" python3 "$here/run.py" "$@"
