#!/usr/bin/env bash
# Packs octet and the libraries that it needs, for machines where nothing can be installed: cluster nodes, bare GPU machines.
# The bundle holds the CUDA backend if nvcc is found. It does not hold Open MPI's plugins, and therefore runs one rank.
# usage: launch/bundle.sh [OUTPUT.tar.xz]   (default: build/octet-bundle.tar.xz)
#        launch/bundle.sh --aarch64 [OUTPUT.tar.xz]   the static program for boards with aarch64 (docs/boards.md), recipes and
#        licence   (default: build/octet-aarch64.tar.xz)
# There: tar xf octet-bundle.tar.xz && octet-bundle/octet train octet-bundle/configs/shapes_resnet20_unified_int8.yaml
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
if [ "${1:-}" = --aarch64 ]; then
  output=$(realpath -m "${2:-$root/build/octet-aarch64.tar.xz}")
  cd "$root"
  cmake --preset board-aarch64 > /dev/null
  ninja -C build/board-aarch64 octet >&2
  folder=build/board-aarch64/octet-bundle
  rm -rf "$folder"
  mkdir -p "$folder"
  cp -r build/board-aarch64/octet configs LICENSE "$folder/"
  tar -C build/board-aarch64 -cJf "$output" octet-bundle
  echo "$output: $(du -h "$output" | cut -f1); it needs nothing but Linux"
  exit
fi
case ${1:-} in -*) sed -n '2,8s/^# //p' "$root/launch/bundle.sh" >&2; exit 2 ;; esac
output=$(realpath -m "${1:-$root/build/octet-bundle.tar.xz}")
cd "$root"
build=build/bundle
mkdir -p build
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  "-DCMAKE_CUDA_ARCHITECTURES=${OCTET_CUDA_ARCHITECTURES:-80;90}" > "$build.log" 2>&1 || {
  tail -20 "$build.log" >&2
  exit 1
}
programs=(octet)
if grep -q 'test_cuda_device:' "$build/build.ninja"; then programs+=(test_cuda_device gpu_probe); fi
ninja -C "$build" "${programs[@]}" >&2

folder=$build/octet-bundle
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib" "$folder/bench"
for program in "${programs[@]}"; do
  file=$(find "$build" -maxdepth 2 -type f -name "$program" -perm -u+x | head -1)
  strip -o "$folder/bin/$program" "$file"
  # All libraries but the C library: every machine has one that fits its kernel and loader.
  # Pango, which octet loads when it draws a text, is none of the program's own.
  text=$(ldconfig -p | awk '/libpangoft2-1\.0\.so\.0/ {print $NF; exit}')
  { ldd "$file" "$text" | awk '$3 ~ /^\// {print $1, $3}'; echo "$(basename "$text") $text"; } |
    grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv)\.so' |
    while read -r name path; do [ -e "$folder/lib/$name" ] || cp -L "$path" "$folder/lib/$name"; done
  # A wrapper, because the programs restart themselves and must find their libraries again.
  cat > "$folder/$program" << EOF
#!/bin/sh
here=\$(CDPATH= cd -- "\$(dirname -- "\$0")" && pwd)
LD_LIBRARY_PATH="\$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "\$here/bin/$program" "\$@"
EOF
  chmod +x "$folder/$program"
done
cp -r configs LICENSE tests/gpu.sh tests/gpu_step.sh "$folder/"
cp bench/peers/networks.py bench/peers/pytorch_gpu_step.py "$folder/bench/"
tar -C "$build" -cJf "$output" octet-bundle
libc=$(objdump -T "$folder"/bin/* "$folder"/lib/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
echo "$output: $(du -h "$output" | cut -f1); it needs a C library with $libc (ldd --version) or newer"
