#!/usr/bin/env bash
# Runs octet on several ranks with Open MPI.
# usage: launch/mpirun.sh [-n RANKS] [--hostfile FILE] [--dry-run] COMMAND...     (COMMAND: train configs/x.yaml ...)
#   -n RANKS         number of ranks on all hosts; default: 2, or the number of slots in the host file
#   --hostfile FILE  hosts and ranks per host (launch/hosts.example); octet must have the same path on every host
#   --dry-run        prints the command and starts nothing
# environment: OCTET      the program (default: build/release/octet of this checkout)
#              INTERFACE  the network interface for TCP, for example eth0; without it Open MPI chooses the network
# Ctrl-C, SIGTERM or SIGHUP: every rank writes a checkpoint, exit code 85. A second one ends the run at once.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
octet=${OCTET:-$here/build/release/octet}
ranks='' hostfile='' dry_run=false
usage() { sed -n '2,9s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    -n) ranks=${2:-}; [[ $ranks =~ ^[1-9][0-9]*$ ]] || usage; shift 2 ;;
    --hostfile) hostfile=${2:-}; [ -n "$hostfile" ] || usage; shift 2 ;;
    --dry-run) dry_run=true; shift ;;
    -*) usage ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || usage
if ! $dry_run && [ ! -x "$octet" ]; then
  echo "mpirun.sh: $octet does not exist; build it: cmake --preset release && ninja -C build/release octet" >&2
  exit 2
fi

# octet divides the cores of a host among its ranks. If Open MPI bound a rank, all threads of the rank would share one core.
options=(--bind-to none)
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

if [ -n "$hostfile" ]; then
  [ -r "$hostfile" ] || { echo "mpirun.sh: cannot read the host file $hostfile" >&2; exit 2; }
  # Open MPI waits 8 minutes before it takes a host for lost. With these settings it waits 20 seconds.
  options+=(--hostfile "$hostfile" --mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 2
            --mca oob_tcp_keepalive_probes 5)
  if [ -n "${INTERFACE:-}" ]; then
    export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader,tcp}
    options+=(-x OMPI_MCA_pml -x OMPI_MCA_btl --mca btl_tcp_if_include "$INTERFACE" --mca oob_tcp_if_include "$INTERFACE")
  fi
else
  ranks=${ranks:-2}
  options+=(--oversubscribe)  # more ranks than cores are slow, but allowed
fi
if [ -n "$ranks" ]; then options+=(-n "$ranks"); fi

# Rank 0 knows the width of this terminal from OCTET_COLUMNS. It then shows its progress as one live line on any host.
if [ -t 1 ] && [ -t 2 ] && columns=$(stty size <&2 2> /dev/null | cut -d ' ' -f 2) && [ "$columns" -gt 0 ]; then
  options+=(-x "OCTET_COLUMNS=$columns")
fi

if $dry_run; then
  printf '%q ' mpirun "${options[@]}" "$octet" "$@"
  echo
  exit 0
fi

# On SIGTERM, mpirun of Open MPI 4 kills the ranks within two seconds, too soon for a checkpoint. It forwards SIGUSR1 to them.
# setsid keeps Ctrl-C in the terminal from mpirun, which would otherwise get it directly.
job='' asked=false interrupted=false reminder=''
stop() {
  interrupted=true
  if $asked; then
    if [ -n "$job" ]; then kill -TERM "$job" 2> /dev/null || true; fi
    return
  fi
  asked=true
  echo "mpirun.sh: the ranks write a checkpoint and end; a second signal ends them at once" >&2 || true
  pass_on
}
pass_on() {
  if [ -z "$job" ] || [ -n "$reminder" ]; then return; fi
  remind > /dev/null 2>&1 &
  reminder=$!
}
# Until mpirun has started its ranks, a signal reaches none of them.
remind() {
  local pause nap=''
  trap '' INT USR1 HUP
  trap 'kill $nap; exit' TERM
  for pause in 1 2 4 8 16 32 64; do
    kill -USR1 "$job" || return 0
    sleep "$pause" &
    nap=$!
    wait "$nap" || true
  done
}
trap stop TERM INT USR1 HUP
# Ctrl-C also ends the `tee` of `mpirun.sh | tee`, and mpirun crashes when it cannot write. These relays keep reading its output.
trap '' PIPE
exec 3> >(trap '' INT TERM; cat 2> /dev/null || exec cat > /dev/null)
relays=$!
exec 4> >(trap '' INT TERM; cat >&2 2> /dev/null || exec cat > /dev/null)
relays+=" $!"
setsid mpirun "${options[@]}" "$octet" "$@" < /dev/null >&3 2>&4 3>&- 4>&- &
job=$!
exec 3>&- 4>&-
if $asked; then pass_on; fi  # the signal came before there was a job
while :; do
  interrupted=false code=0
  wait "$job" || code=$?
  if $interrupted; then continue; fi  # a trapped signal ends wait before the job ends
  if [ -n "$reminder" ]; then kill -TERM "$reminder" 2> /dev/null || true; fi
  # shellcheck disable=SC2086  # two numbers
  wait $relays 2> /dev/null || true
  # 138: the signal ended mpirun or a rank that was not yet ready for it, so nothing is lost.
  if $asked && [ "$code" = 138 ]; then code=85; fi
  exit "$code"
done
