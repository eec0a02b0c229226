#!/usr/bin/env bash
# Times octet's training step on one rank, on two, and on two hosts with a slow network between them: the fp32, int8 and
# exact exchanges, with overlap and without. The hosts are two network namespaces of this machine, joined by a cable
# (veth) that tc limits; each has its own name and its own /dev/shm, so that Open MPI must use the cable. They are gone
# afterwards.
# usage: sudo bench/scaling.sh [--config FILE] [--steps N] [--rounds N] [--rates "10gbit 1gbit"] [--local] [--group N]
#                              [--json FILE]
#   --rates LIST   limits of the cable; "" leaves the hosts out   --local   also one rank of two threads, and two of one
#   --group N      images of a norm group with the exact exchange; default 8, half of the default recipe's batch
#   --json FILE    adds what each run measured, one object a line
# Needs root, iproute2, util-linux, python3, Open MPI. environment: OCTET (default: build/release/octet of this checkout)
set -euo pipefail

self=$(readlink -f "${BASH_SOURCE[0]}")
here=$(dirname "$(dirname "$self")")
octet=${OCTET:-$here/build/release/octet}
first=octet-host-1 second=octet-host-2 network=10.77.7

# Runs a command on a host: nsenter and not `ip netns exec`, which hides /sys.
on_host() {
  local host=$1
  shift
  # shellcheck disable=SC2016  # the inner shell expands
  exec nsenter --net="/run/netns/$host" unshare --uts --mount --ipc sh -c '
    hostname "$0" && mount -t tmpfs tmpfs /dev/shm && mount --bind "$1" /etc/hosts && shift && exec "$@"' \
    "$host" "$OCTET_LAB/hosts" "$@"
}
if [ "${1:-}" = on_host ]; then  # mpirun calls this script as it would call ssh
  shift
  while [ "${1#-}" != "$1" ]; do shift; done
  host=$1
  shift
  on_host "$host" sh -c "$*"
fi

usage() { sed -n '2,13s/^# //p' "$self" >&2; exit 2; }
config=$here/configs/synthetic_resnet50_unified_int8.yaml steps=5 rounds=3 rates='10gbit 1gbit' local=false exact_group=8 json=/dev/null
while [ $# -gt 0 ]; do
  case $1 in
    --config) config=$(readlink -f "${2:-}") || usage; shift 2 ;;
    --steps) steps=${2:-}; [[ $steps =~ ^[1-9][0-9]*$ ]] || usage; shift 2 ;;
    --rounds) rounds=${2:-}; [[ $rounds =~ ^[1-9][0-9]*$ ]] || usage; shift 2 ;;
    --rates) rates=${2-}; shift 2 || usage ;;
    --local) local=true; shift ;;
    --group) exact_group=${2:-}; [[ $exact_group =~ ^[1-9][0-9]*$ ]] || usage; shift 2 ;;
    --json) json=$(readlink -f "${2:-}") || usage; shift 2 ;;
    *) usage ;;
  esac
done
fail() { echo "scaling.sh: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "network namespaces need root: sudo $self"
[ -x "$octet" ] || fail "$octet does not exist; build it: cmake --preset release && ninja -C build/release octet"
for program in ip tc nsenter unshare mpirun python3; do
  command -v "$program" > /dev/null || fail "$program is missing: apt-get install iproute2 util-linux openmpi-bin python3"
done
if [ -e "/run/netns/$first" ] || [ -e "/run/netns/$second" ]; then
  fail "another run holds the hosts; if not: ip netns del $first; ip netns del $second"
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
OCTET_LAB=$(mktemp -d)
export OCTET_LAB
cleanup() {
  local host
  for host in "$first" "$second"; do
    [ -e "/run/netns/$host" ] || continue
    ip netns pids "$host" | xargs --no-run-if-empty kill -9 2> /dev/null || true
    ip netns del "$host" || true  # and with it its end of the cable
  done
  rm -rf "$OCTET_LAB"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

connect() {
  printf '127.0.0.1 localhost\n%s.1 %s\n%s.2 %s\n' "$network" "$first" "$network" "$second" > "$OCTET_LAB/hosts"
  printf '%s slots=1\n%s slots=1\n' "$first" "$second" > "$OCTET_LAB/hostfile"
  printf '#!/bin/sh\nexec %q on_host "$@"\n' "$self" > "$OCTET_LAB/agent"
  chmod +x "$OCTET_LAB/agent"
  ip netns add "$first"
  ip netns add "$second"
  ip -n "$first" link add eth0 type veth peer name eth0 netns "$second"
  local host address=1
  for host in "$first" "$second"; do
    ip -n "$host" addr add "$network.$address/24" dev eth0
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
    address=2
  done
}
limit() {
  local host
  for host in "$first" "$second"; do
    tc -n "$host" qdisc replace dev eth0 root tbf rate "$1" burst 1mb latency 50ms
  done
}

# threads=N measure NETWORK EXCHANGE OVERLAP COMMAND...: what the command, which ends with octet, measures, as one line.
measure() {
  local name=$1 exchange=$2 overlap=$3 group=0
  shift 3
  [ "$exchange" != exact ] || group=$exact_group
  "$@" bench "$config" --steps "$steps" --json --set "comm.exchange=$exchange" --set "comm.overlap=$overlap" \
    --set backend.threads="$threads" --set train.norm_group="$group" < /dev/null | python3 -c '
import json, sys
network, exchange, overlap = sys.argv[1:]
row = json.loads(sys.stdin.read().strip().splitlines()[-1])
row.update(network=network, exchange=exchange, overlap=overlap == "true")
print("%8s %5d %8s %7s %9.1f %9.1f %9.1f %7.0f %8.2f" % (
    network, row["ranks"], exchange, overlap, row["step_ms"], row["exchange_busy_ms"], row["phases"]["exchange"],
    100 * row["exchange_hidden_share"], row["wire_bytes_per_step"] / 1e6), flush=True)
print(json.dumps(row), file=open(3, "w"))' "$name" "$exchange" "$overlap" 3>> "$json"
}

printf '%8s %5s %8s %7s %9s %9s %9s %7s %8s\n' network ranks exchange overlap step_ms busy_ms waited_ms hidden% MB/rank
threads=1  # of each rank
for round in $(seq "$rounds"); do
  [ "$round" = 1 ] || echo
  if $local; then
    threads=2 measure none fp32 true "$octet"
    threads=1 measure memory fp32 true mpirun --bind-to none -n 2 "$octet"
    threads=1 measure memory int8 true mpirun --bind-to none -n 2 "$octet"
    threads=1 measure memory exact true mpirun --bind-to none -n 2 "$octet"
  fi
  for rate in $rates; do
    [ -e "/run/netns/$first" ] || connect
    limit "$rate"
    for exchange in fp32 int8 exact; do
      for overlap in true false; do
        threads=1 measure "$rate" "$exchange" "$overlap" on_host "$first" \
          mpirun --hostfile "$OCTET_LAB/hostfile" --mca plm rsh --mca plm_rsh_agent "$OCTET_LAB/agent" \
          --mca btl_tcp_if_include "$network.0/24" --mca oob_tcp_if_include "$network.0/24" --bind-to none \
          -x OMPI_MCA_pml -x OMPI_MCA_btl "$octet"
      done
    done
  done
done
