#!/usr/bin/env bash
# Runs octet on several ranks with Open MPI.
# usage: launch/mpirun.sh [-n RANKS] [--hostfile FILE] [--wait SECONDS] [--elastic] [--retries N]
#                         [--dry-run] COMMAND...
#                    COMMAND is, for example, train mine.yaml
#   -n RANKS         number of ranks on all hosts; default: 2, or the number of slots in the host file
#   --hostfile FILE  hosts and ranks per host (launch/hosts.example); octet must have the same path on every host
#   --wait SECONDS   waits so long until every host of the host file answers, for example while containers start
#   --retries N      resumes a training that fails, up to N times, if the exit code says that this can help and the run has a newer
#                    checkpoint than at its last start; the command must name the run with --run
#   --elastic        takes the hosts of the host file that answer, as many ranks as they have slots and data.batch allows. When
#                    a host is lost, the training is resumed without it; when one answers again, with it (launch/elastic.sh).
#                    --retries is 100 then, if it is not given
#   --dry-run        prints the command and starts nothing
# environment: OCTET      the program (default: build/release/octet of this checkout, or the one that was installed with this)
#              INTERFACE  the network interface that joins the hosts, for example eth0; without it Open MPI and NCCL choose
#              START      seconds until the first rank must have started (default: 180; 0: no limit)
#              GRACE      seconds that mpirun has to end after octet's watchdog has spoken (default: 20)
#              PROBE      with --elastic: seconds between looks for hosts that were lost or added (default: 60)
# Ctrl-C, SIGTERM or SIGHUP: every rank writes a checkpoint, exit code 85. A second one ends the run at once.
# shellcheck disable=SC2034,SC2317  # variables of elastic.sh; functions that traps and helpers call
set -euo pipefail

# A pipe would otherwise take the number of a closed standard stream, and its reader would wait for itself.
for stream in 0 1 2; do
  [ -e "/dev/fd/$stream" ] || eval "exec $stream<> /dev/null"
done

# On SIGTERM, mpirun of Open MPI 4 kills the ranks within two seconds, too soon for a checkpoint. It forwards SIGUSR1 to them.
job='' asked=false interrupted=false hung=false helpers=()  # the traps come first: an earlier signal ends this shell
stop() {
  interrupted=true
  if $asked; then
    if [ -n "$job" ]; then in_background terminate; fi
    return 0  # without a number: the status of the wait that the signal has ended, at which the script would exit
  fi
  asked=true
  echo "mpirun.sh: the ranks write a checkpoint and end; a second signal ends them at once" >&2 || true
  if [ -n "$job" ]; then in_background remind; fi
}
# Octet's watchdog has found a hang and ends the job. mpirun waits for its daemons, also for one on a host that hangs.
watchdog_spoke() {
  interrupted=true
  if $hung; then return 0; fi
  hung=true
  in_background end_all
}
trap stop TERM INT USR1 HUP
trap watchdog_spoke USR2

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
octet=${OCTET:-$here/build/release/octet}
if [[ -z ${OCTET:-} && $here == */share/octet && ! -e $here/CMakeLists.txt ]]; then octet=${here%/share/octet}/bin/octet; fi
ranks='' hostfile='' dry_run=false elastic=false retries='' patience=0
usage() { sed -n '2,20s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    -n) ranks=${2:-}; [[ $ranks =~ ^[1-9][0-9]*$ ]] || usage; shift 2 ;;
    --hostfile) hostfile=${2:-}; [ -n "$hostfile" ] || usage; shift 2 ;;
    --wait) patience=${2:-}; [[ $patience =~ ^[0-9]+$ ]] || usage; shift 2 ;;
    --retries) retries=${2:-}; [[ $retries =~ ^[0-9]+$ ]] || usage; shift 2 ;;
    --elastic) elastic=true; shift ;;
    --dry-run) dry_run=true; shift ;;
    -*) usage ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || usage
run=''
for word in "$@"; do
  if [ "${before:-}" = --run ]; then run=$word; fi
  if [[ $word == --run=* ]]; then run=${word#--run=}; fi
  before=$word
done
if $elastic && [ -z "$hostfile" ]; then
  echo "mpirun.sh: --elastic needs a host file: add --hostfile FILE" >&2
  exit 2
fi
if $elastic; then retries=${retries:-100}; fi
if [ "${retries:=0}" -gt 0 ] && [ -z "$run" ]; then
  echo "mpirun.sh: --retries and --elastic need the run directory: add --run DIR to the command" >&2
  exit 2
fi
if [ "$patience" != 0 ] && [ -z "$hostfile" ]; then
  echo "mpirun.sh: --wait needs a host file: add --hostfile FILE" >&2
  exit 2
fi
for seconds in "${GRACE:-20}" "${PROBE:-60}"; do
  if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo "mpirun.sh: GRACE and PROBE are whole seconds, at least 1, not '$seconds'" >&2
    exit 2
  fi
done
if [[ ! ${START:=180} =~ ^[0-9]+$ ]]; then
  echo "mpirun.sh: START is whole seconds, or 0 for no limit, not '$START'" >&2
  exit 2
fi
if ! $dry_run && [ ! -x "$octet" ]; then
  echo "mpirun.sh: $octet does not exist; build it: cmake --preset release && ninja -C build/release octet" >&2
  exit 2
fi

if ! $dry_run && ! command -v mpirun > /dev/null; then
  echo "mpirun.sh: there is no mpirun; install Open MPI: apt-get install openmpi-bin" >&2
  exit 127
fi

# octet divides the cores of a host among its ranks. If Open MPI bound a rank, all threads of the rank would share one core.
options=(--bind-to none)
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

if [ -n "$hostfile" ]; then
  [ -r "$hostfile" ] || { echo "mpirun.sh: cannot read the host file $hostfile" >&2; exit 2; }
  # shellcheck source=launch/hosts.sh
  . "$here/launch/hosts.sh"
  [ -n "$(host_lines)" ] || { echo "mpirun.sh: $hostfile names no host; write a line for each, as in launch/hosts.example" >&2; exit 2; }
  # A name goes to ssh, which would take one that begins with a dash for an option, and some of those run commands.
  strange=$(host_lines | sed -E '/^([[:alnum:]_][[:alnum:]_.-]*@)?[[:alnum:]][[:alnum:]._:-]*([[:space:]]|$)/d' | head -1)
  [ -z "$strange" ] || { echo "mpirun.sh: $hostfile: $(printf %q "$strange") does not begin with the name of a host" >&2; exit 2; }
  # Open MPI waits 8 minutes before it takes a host for lost. With these settings it waits 20 seconds.
  options+=(--mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 5)
  OCTET_HOSTS=$(host_lines | awk '{print $1}' | paste -sd ' ')
  export OCTET_HOSTS  # for a watchdog's message
  options+=(-x OCTET_HOSTS)
  if [ -n "${INTERFACE:-}" ]; then
    if [[ $INTERFACE != */* ]]; then export NCCL_SOCKET_IFNAME="=$INTERFACE"; fi  # Open MPI also takes 10.0.0.0/8
    export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader,tcp}
    options+=(${NCCL_SOCKET_IFNAME:+-x NCCL_SOCKET_IFNAME} -x OMPI_MCA_pml -x OMPI_MCA_btl)
    options+=(--mca btl_tcp_if_include "$INTERFACE" --mca oob_tcp_if_include "$INTERFACE")
  fi
else
  ranks=${ranks:-2}
  options+=(--oversubscribe)  # more ranks than cores are slow, but allowed
  # Ranks of one host share memory, so none of them listens to a network. mpirun names its own port to this host alone. In a job of
  # a batch system mpirun takes the hosts of the job.
  if [ -z "${SLURM_JOB_ID:-}${PBS_JOBID:-}${LSB_JOBID:-}${JOB_ID:-}" ]; then
    options+=(--mca pml ob1 --mca btl "self,vader" --mca oob_tcp_if_include lo)
  fi
fi

# In an interactive step of Slurm, mpirun starts its daemons as another step, which would wait until this one has ended.
if [ -n "${SLURM_STEP_ID:-}" ]; then export SLURM_OVERLAP=${SLURM_OVERLAP:-1}; fi

# Rank 0 knows the width of this terminal from OCTET_COLUMNS. It then shows its progress as one live line on any host.
if [ -t 1 ] && [ -t 2 ] && columns=$(stty size <&2 2> /dev/null | cut -d ' ' -f 2) && [ "$columns" -gt 0 ]; then
  options+=(-x "OCTET_COLUMNS=$columns")
fi

where=(${hostfile:+--hostfile "$hostfile"} ${ranks:+-n "$ranks"})
if $dry_run; then
  printf '%q ' mpirun "${where[@]}" "${options[@]}" "$octet" "$@"
  echo
  exit 0
fi

in_background() {
  ( trap '' INT USR1 USR2 HUP; "$1" ) 3>&- 4>&- &
  helpers+=("$!")
}
# Until mpirun has started its ranks, a signal reaches none of them.
remind() {
  local pause
  for pause in 1 2 4 8 16 32 64; do
    kill -USR1 "$job" 2> /dev/null || return 0
    nap "$pause"
  done
}
# Where the ranks have written their checkpoint, mpirun is about to end. It crashes if the signal meets it there.
terminate() {
  [ ! -e "$scratch/stopped" ] || nap 5
  kill -TERM "$job" 2> /dev/null || true
}
end_all() {
  nap "${GRACE:-20}"
  kill -0 "$job" 2> /dev/null || return 0
  echo "mpirun.sh: mpirun has not ended ${GRACE:-20} s after octet's watchdog; ending it and all that it has started here" >&2 || true
  kill_job
}
kill_job() { pkill -KILL -s "$job" || kill -KILL "$job"; }  # the session that setsid has made
# mpirun waits without end for a daemon that does not connect back to it. Then there is no rank yet whose watchdog could speak.
await_start() {
  local second
  for ((second = 1; second <= START; ++second)); do
    nap 1
    not_started || return 0
    [ "$second" != $((START / 6)) ] ||
      echo "mpirun.sh: no rank has started for $second s; mpirun waits for its daemons${OCTET_HOSTS:+ on $OCTET_HOSTS}" >&2 || true
  done
  echo "mpirun.sh: no rank has started for $START s (START); ending mpirun" >&2 || true
  echo "  fix: every host must reach this one ($(uname -n)$(addresses)); where hosts have several networks, name one: INTERFACE=eth0" >&2 || true
  touch "$scratch/late"
  kill_job
}
not_started() { kill -0 "$job" 2> /dev/null && [ ! -e "$scratch/started" ]; }
addresses() { ip -br -4 address show up scope global 2> /dev/null | awk '{printf ", %s %s", $1, $3}'; }
# Sleeps for so many seconds, or until the job has ended: a signal to a helper that has just been started can be lost.
nap() {
  local second
  for ((second = 0; second < $1; ++second)); do
    kill -0 "$job" 2> /dev/null || return 0
    sleep 1 > /dev/null 2>&1
  done
}

# Passes on what the ranks print. The first byte says that one has started; mpirun itself prints errors alone.
relay_output() {
  head -c 1 2> /dev/null || true
  : > "$scratch/started"
  cat 2> /dev/null || exec cat > /dev/null
}

# Passes on what the ranks say, and looks for the watchdog's last words. Returns 85 if a signal has stopped the ranks.
relay_errors() {
  local line stopped=0 of_stop='^octet: [^ ]+ [^ ]+ [^ ]+: stopped by a signal at step [0-9]+;'
  while IFS= read -r line || [ -n "$line" ]; do
    printf '%s\n' "$line" >&2 2> /dev/null || true
    if [[ $line == 'octet: '* || $line == 'watchdog: '* ]]; then : > "$scratch/started"; fi
    # Names of files in other lines may hold these words. No name can begin a line.
    if [[ $line == 'watchdog: '*'; ending the job' ]]; then kill -USR2 "$$" 2> /dev/null || true; fi
    if [[ ${line#$'\r\033[K'} =~ $of_stop ]]; then
      stopped=85
      : > "$scratch/stopped"
    fi
  done
  return "$stopped"
}

# Runs the command on all ranks; returns the exit code.
run_once() {
  local code relays stopped=0
  job='' hung=false helpers=()
  rm -f "$scratch/started" "$scratch/late" "$scratch/stopped"
  # Ctrl-C also ends the `tee` of `mpirun.sh | tee`, and mpirun crashes when it cannot write. These relays keep reading its output.
  trap '' PIPE
  exec 3> >(trap '' INT TERM HUP USR1 USR2; relay_output)
  relays=$!
  exec 4> >(trap '' INT TERM HUP USR1 USR2; relay_errors)
  relays+=" $!"
  # setsid keeps Ctrl-C in the terminal from mpirun, which would otherwise get it directly.
  # setpriv: if this script is killed, mpirun gets the signal that asks the ranks for a checkpoint and their end.
  setsid setpriv --pdeathsig USR1 mpirun "${where[@]}" "${options[@]}" "$octet" "$@" < /dev/null >&3 2>&4 3>&- 4>&- &
  job=$!
  exec 3>&- 4>&-
  if $asked; then in_background remind; fi  # the signal came before there was a job
  if [ "$START" != 0 ]; then in_background await_start; fi
  if $elastic; then in_background watch_hosts; fi
  while :; do
    interrupted=false code=0
    wait "$job" 2> /dev/null || code=$?
    $interrupted || break  # a trapped signal ends wait before the job ends
  done
  # shellcheck disable=SC2086  # two numbers
  wait $relays 2> /dev/null || stopped=$?
  for helper in "${helpers[@]}"; do kill -TERM "$helper" 2> /dev/null || true; done
  if $hung && [ "$code" != 0 ]; then code=83; fi
  if [ -e "$scratch/late" ]; then code=84; fi
  # 138: the signal ended mpirun or a rank that was not yet ready for it, so nothing is lost.
  if $asked && [ "$code" = 138 ]; then code=85; fi
  # After SIGTERM mpirun ends with 1, or crashes, also if the ranks have written their checkpoint.
  if [ "$stopped" = 85 ]; then
    case $code in 1 | 139) code=85 ;; esac
  fi
  return "$code"
}

newest_checkpoint() { cat "$run/checkpoints/latest" 2> /dev/null || true; }
# What may help once more: a disk, a lock, a hang, a lost peer (`octet train --help`), a killed rank, a lost host, lost ssh.
may_help() { case $1 in 74 | 75 | 83 | 84 | 137 | 205 | 255) ;; *) return 1 ;; esac; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -n "$hostfile" ] && grep -q $'\r' "$hostfile"; then  # Open MPI does not read lines that end with CR LF
  host_lines > "$scratch/hosts"
  where[1]=$scratch/hosts
fi
if [ "$patience" != 0 ]; then await_hosts "$patience"; fi

hosts_may_help() { false; }
stopped_for_hosts() { false; }
if $elastic; then
  most_ranks=$ranks words=("$@")
  # shellcheck source=launch/elastic.sh
  . "$here/launch/elastic.sh"
  choose_hosts
fi

for ((attempt = 1; ; ++attempt)); do
  before=$(newest_checkpoint) code=0
  run_once "$@" || code=$?
  if [ "$code" = 0 ] || $asked; then exit "$code"; fi
  after=$(newest_checkpoint)
  if stopped_for_hosts "$code"; then
    attempt=$((attempt - 1))
    echo "mpirun.sh: other hosts are there; going on with them, from $after" >&2
  elif [ "$attempt" -gt "$retries" ]; then
    exit "$code"
  elif hosts_may_help "$code" || { may_help "$code" && [ "$after" != "$before" ]; }; then
    echo "mpirun.sh: exit code $code; attempt $attempt of $retries to resume, from ${after:-the start}" >&2
  else
    ! may_help "$code" || echo "mpirun.sh: exit code $code; not tried again: there is no newer checkpoint than at the last start" >&2
    exit "$code"
  fi
  if $elastic; then choose_hosts; fi
  if $asked; then exit "$code"; fi
  if [[ " $* " != *' --resume '* ]]; then set -- "$@" --resume; fi
done
