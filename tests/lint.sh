#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy on the C++ files that differ from a commit. Fails when it finds something.
# usage: tests/lint.sh [--all | COMMIT]
#   COMMIT       default: the last tag; without a tag, the commit before this one
#   --all        every C++ file (an hour on two cores)
# environment: BUILD  a configured build folder (default: build/release)
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
build=${BUILD:-build/release} since='' all=false
usage() { sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=true; shift ;;
    -*) usage ;;
    *) since=$1; shift ;;
  esac
done
if ! command -v clang-tidy > /dev/null; then
  echo "lint: skipped, clang-tidy is not installed (launch/setup.sh --dev installs it)"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# clang cannot read the precompiled headers of gcc, and each file of a joined test needs an entry of its own.
python3 - "$build/compile_commands.json" > "$work/compile_commands.json" << 'PYTHON' || exit 1
import json, re, sys
entries = []
for entry in json.load(open(sys.argv[1])):
    entry["command"] = re.sub(r" -include \S*cmake_pch\.hxx", "", entry["command"])
    joined = re.findall(r'#include "(.*\.cpp)"', open(entry["file"]).read()) if "/Unity/" in entry["file"] else []
    for file in joined or [entry["file"]]:
        entries.append({**entry, "file": file, "command": entry["command"].replace(entry["file"], file)})
json.dump(entries, sys.stdout)
PYTHON

# clang does not know g++'s shuffles of vectors. The fuzz targets are no part of this build.
unreadable=('kernels/cpu/contraction_*' 'kernels/cpu/passes_*' 'kernels/cpu/chunked_sums_*' tests/emulated/amx.cpp 'tests/fuzz/*')
sources=('kernels/*.cpp' 'comm/*.cpp' 'src/*.cpp' 'tests/*.cpp' "${unreadable[@]/#/:!}")
if $all; then
  git ls-files "${sources[@]}" > "$work/files"
else
  since=${since:-$(git describe --tags --abbrev=0 2> /dev/null || git rev-parse -q --verify HEAD^)}
  # git 2.39 loses files whose path is named beside patterns to leave out, so the list is made first.
  git ls-files "${sources[@]}" > "$work/sources"
  git diff --name-only --diff-filter=d "${since:-HEAD}" -- kernels comm src tests > "$work/changed" || exit 1
  while read -r file; do
    case $file in
      *.cpp) grep -xF "$file" "$work/sources" ;;
      *.h | *.inc) git grep -l "#include \"$file\"" -- "${sources[@]}" | head -1 ;;  # one file that includes it
    esac
  done < "$work/changed" | sort -u > "$work/named"
  # A file that this build leaves out, for example nccl.cpp without NCCL, cannot be compiled here.
  while read -r file; do
    grep -qF "$PWD/$file\"" "$work/compile_commands.json" && echo "$file"
  done < "$work/named" > "$work/files"
fi

# check FILE: prints its findings, and writes its name to a list by result.
check() {
  local list=clean
  if ! findings=$(clang-tidy --quiet -p "$work" --warnings-as-errors='*' --extra-arg=-Wno-everything "$1" 2> /dev/null); then
    list=faulty
    echo "$findings"
  fi
  echo "$1" >> "$work/$list"
}
while read -r file; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  check "$file" &
done < "$work/files"
wait
touch "$work"/{clean,faulty}
echo "lint: $(wc -l < "$work/clean") files clean, $(wc -l < "$work/faulty") with findings"
[ ! -s "$work/faulty" ]
