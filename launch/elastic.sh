# shellcheck shell=bash disable=SC2034,SC2154  # mpirun.sh has the variables and uses them
# Which hosts a training runs on: mpirun.sh reads this for --elastic. The host file is read again at every start and every PROBE
# seconds, so a host that is added to it is taken, and one that is removed is left.

taken=''  # lines of the host file: the hosts of the last start

# The ranks for these lines: the largest number, up to that of the slots, among which the images of a step can be divided.
fitting() {
  local slots
  slots=$(awk 'match($0, /[ \t]slots *= *[0-9]+/) {split(substr($0, RSTART), of, "="); sum += of[2]} END {print sum + 0}' <<< "$1")
  if [ -n "$most_ranks" ] && [ "$slots" -gt "$most_ranks" ]; then slots=$most_ranks; fi
  if [ "$slots" = 0 ]; then echo 0; else "$octet" "${words[@]}" --fitting-ranks "$slots"; fi
}

# Waits up to ten minutes for a host, and sets where the ranks of the next start run.
choose_hosts() {
  local all waited=0
  [ -n "$answering" ] || look
  while [ -z "$answering" ] && ! $asked; do
    [ "$waited" != 0 ] || echo "mpirun.sh: no host of $hostfile answers; waiting" >&2
    if [ "$waited" -ge 600 ]; then echo "mpirun.sh: no host of $hostfile has answered for $waited s" >&2; exit 205; fi
    sleep 10 || true
    waited=$((waited + 10))
    look
  done
  taken=$answering answering=''
  ranks=$(fitting "$taken")
  all=$(host_lines | wc -l)
  echo "mpirun.sh: $(grep -c . <<< "$taken") of $all hosts answer; $ranks ranks on $(awk '{print $1}' <<< "$taken" | paste -sd ' ')" >&2
  printf '%s\n' "$taken" > "$scratch/hosts"
  where=(--hostfile "$scratch/hosts" -n "$ranks")
  rm -f "$scratch/others"
}

# Stops the ranks, after a checkpoint, when more of them would find a place or one of their hosts has left the host file.
watch_hosts() {
  while nap "${PROBE:-60}" && kill -0 "$job" 2> /dev/null; do
    look
    if [ "$(fitting "$answering")" -gt "$ranks" ] || grep -qvxFf <(host_lines) <<< "$taken"; then
      touch "$scratch/others"
      remind
      return
    fi
  done
}
stopped_for_hosts() { [ "$1" = 85 ] && [ -e "$scratch/others" ]; }

# Whether a failure may pass because other hosts answer now, or because the rest of the last start still holds the run directory.
hosts_may_help() {
  case $1 in 2 | 3 | 4 | 78 | 85) return 1 ;; esac
  look
  [ "$answering" != "$taken" ] || { [ "$1" = 75 ] && [ "$attempt" -gt 1 ]; }
}

if [ -z "$(host_lines)" ] || host_lines | grep -qvE '[[:space:]]slots *= *[1-9]'; then
  echo "mpirun.sh: --elastic needs slots=N in each line of $hostfile, as launch/hosts.example has them" >&2
  exit 2
fi
