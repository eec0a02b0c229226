#!/usr/bin/env bash
# Installs the missing packages that octet needs to be built, run and tested. Debian 12, Ubuntu 22.04 and 24.04.
# usage: launch/setup.sh [--dev] [--cross] [--aarch64] [--board] [--arm] [--slurm] [--browser] [--check]
#   --dev      also clang with its tools and fuzzer, shellcheck and gdb
#   --cross    also the cross compiler for aarch64 and qemu's user emulation, for the tests of its kernels (0.3 GB)
#   --aarch64  the same, and the distribution's arm64 libraries, which are unpacked into build/aarch64-sysroot (0.9 GB) and are
#              not installed
#   --board    as --cross, and the static arm64 libraries of the program for boards, in build/board-sysroot (0.1 GB)
#   --arm      also a compiler for microcontrollers and qemu's emulation of a board, for the tests of networks in C (0.9 GB)
#   --slurm    also Slurm and munge for the test integration_slurm. No daemon is started, now or when the machine boots. A machine
#              that belongs to a Slurm cluster is left as it is
#   --browser  also Chromium for the test integration_pages (0.4 GB). Ubuntu has no package of it, only a snap
#   --check    change nothing; print what is missing, and exit with 1 if something is
set -euo pipefail

packages=(
  build-essential cmake ninja-build pkg-config git ca-certificates                    # building, also the package
  libopenmpi-dev openmpi-bin                                                          # ranks
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev                                     # configuration, reports, command line
  libspdlog-dev libfmt-dev                                                            # messages
  libopencv-core-dev libopencv-imgproc-dev libopencv-imgcodecs-dev                     # tests alone: images for the decoders
  libpango1.0-dev fonts-dejavu-core                                                   # text in pictures
  libjpeg-dev libturbojpeg0-dev libpng-dev libtiff-dev libwebp-dev zlib1g-dev
  libdnnl-dev librandom123-dev libgtest-dev python3                                   # fp32 policy; oracles and tests
  libxxhash-dev libssl-dev libprotobuf-dev protobuf-compiler                          # checkpoints, events for TensorBoard
  libonnx-dev libflatbuffers-dev flatbuffers-compiler                                 # the forms of ONNX and LiteRT files
  libpugixml-dev                                                                      # annotations of objects
  man-db zsh                                                                          # tests of an installation
)
python_packages=(pybind11-dev python3-dev python3-numpy python3-pip python3-setuptools python3-wheel)  # the module and its test
developer_packages=(clang clang-tidy clang-format libomp-dev shellcheck gdb lintian)
cross_packages=(g++-aarch64-linux-gnu qemu-user)
sysroot_packages=(mmdebstrap time)  # time: what memory a program takes, for tests/board.sh
board_packages=(
  libc6-dev libstdc++6 libgomp1 libyaml-cpp-dev libpugixml-dev libpng-dev libjpeg-dev libturbojpeg0-dev zlib1g-dev libxxhash-dev
  libssl-dev libprotobuf-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev librandom123-dev libonnx-dev
  libflatbuffers-dev
)
arm_packages=(gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm)
browser_packages=(chromium)
slurm_packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2)

developer=false cross=false aarch64=false board=false arm=false slurm=false browser=false check=false
for argument in "$@"; do
  case $argument in
    --dev) developer=true ;;
    --cross) cross=true ;;
    --aarch64) cross=true aarch64=true ;;
    --board) cross=true board=true ;;
    --arm) arm=true ;;
    --slurm) slurm=true ;;
    --browser) browser=true ;;
    --check) check=true ;;
    *) sed -n '2,14s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
if ! command -v apt-get > /dev/null; then
  echo "setup: this script needs apt (Debian, Ubuntu); on another system install what corresponds to: ${packages[*]} ${python_packages[*]}" >&2
  exit 1
fi
root=()
[ "$(id -u)" = 0 ] || root=(sudo)

missing_some=0
listed=false  # whether apt's lists have been updated
install_missing() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then
    echo "setup: all $# packages are installed"
    return
  fi
  echo "setup: missing: ${missing[*]}"
  if $check; then
    missing_some=1
    return
  fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo > /dev/null; then
    echo "setup: run it as root, or install sudo" >&2
    exit 1
  fi
  $listed || "${root[@]}" apt-get update -q
  listed=true
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# Their packages would start munge, and switch all three on for the next boot.
install_slurm() {
  local policy=/usr/sbin/policy-rc.d packages services=() service
  packages=$(dpkg-query -W -f='${db:Status-Status} ' slurmctld slurmd slurm-client 2> /dev/null || true)
  if [ -e /etc/slurm/slurm.conf ] || { [[ $packages != *installed* ]] && command -v scontrol > /dev/null; }; then
    echo "setup: this machine has a Slurm of its own, which is left as it is"
    return
  fi
  if $check; then
    install_missing "${slurm_packages[@]}"
    return
  fi
  if [ ! -e "$policy" ]; then
    trap '"${root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" install -m 755 /dev/stdin "$policy"
  fi
  if "$policy" munge start > /dev/null 2>&1 || [ $? != 101 ]; then
    echo "setup: $policy does not keep packages from starting daemons; Slurm is not installed" >&2
    exit 1
  fi
  for service in munge slurmctld slurmd; do
    [ -e "/etc/init.d/$service" ] || services+=("$service")
  done
  install_missing "${slurm_packages[@]}"
  for service in "${services[@]}"; do "${root[@]}" update-rc.d "$service" disable; done
}

install_missing "${packages[@]}" "${python_packages[@]}"
if $developer; then
  install_missing "${developer_packages[@]}"
  # The sanitizers and the fuzzer of clang have a package with the version in its name. On Ubuntu 22.04 they are part of clang.
  runtime="libclang-rt-$(clang -dumpversion 2> /dev/null | cut -d. -f1)-dev"
  if apt-cache show "$runtime" > /dev/null 2>&1; then install_missing "$runtime"; fi
fi
if $slurm; then install_slurm; fi
if $browser; then install_missing "${browser_packages[@]}"; fi
if $cross; then install_missing "${cross_packages[@]}"; fi
if $arm; then install_missing "${arm_packages[@]}"; fi

# make_sysroot FOLDER PACKAGES: unpacks arm64 packages into a folder below build/. They are not configured. The links that their
# scripts would make are made here, and all point into the folder.
make_sysroot() {
  local sysroot link
  sysroot=$(dirname "${BASH_SOURCE[0]}")/../build/$1
  if [ -e "$sysroot" ]; then
    echo "setup: $sysroot exists"
    return
  fi
  echo "setup: missing: $sysroot"
  if $check; then
    missing_some=1
    return
  fi
  mkdir -p "$(dirname "$sysroot")"
  rm -rf "$sysroot.new"
  mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$2" \
    "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$sysroot.new"
  find "$sysroot.new/usr/lib" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$sysroot.new$(readlink "$link")" "$link"
  done
  if [ -e "$sysroot.new/usr/lib/aarch64-linux-gnu/blas" ]; then
    ln -s blas/libblas.so.3 lapack/liblapack.so.3 "$sysroot.new/usr/lib/aarch64-linux-gnu/"
  fi
  mv "$sysroot.new" "$sysroot"
}
if $aarch64 || $board; then install_missing "${sysroot_packages[@]}"; fi
if $board; then make_sysroot board-sysroot "$(IFS=,; echo "${board_packages[*]}")"; fi
if $aarch64; then
  libraries=(libc6-dev libstdc++6 libgomp1)
  for package in "${packages[@]}"; do
    [[ $package != *-dev ]] || libraries+=("$package")
  done
  make_sysroot aarch64-sysroot "$(IFS=,; echo "${libraries[*]}")"
fi
exit "$missing_some"
