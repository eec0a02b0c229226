# shellcheck shell=bash disable=SC2154  # mpirun.sh has the variables
# The lines of the host file, and which of its hosts answer: mpirun.sh reads this. A host answers if the program is there and the
# agent of Open MPI, usually ssh, reaches it within 10 seconds.

answering=''  # lines of the host file, after a look
read -ra agent <<< "${OMPI_MCA_plm_rsh_agent:-ssh -o BatchMode=yes --}"

# Without comments and the white space around lines, which are also those of other systems (CR LF).
host_lines() { sed -E 's/#.*//; s/^[[:space:]]+//; s/[[:space:]]+$//; /^$/d' "$hostfile"; }

answers() {
  case $1 in
    localhost | 127.0.0.1 | "$(uname -n)") test -x "$octet" ;;
    *) timeout 10 "${agent[@]}" "$1" "test -x $(printf %q "$octet")" ;;
  esac
}

# Asks all hosts at once.
look() {
  local line i lines=() asking=()
  mapfile -t lines < <(host_lines)
  for line in "${lines[@]}"; do
    answers "${line%%[[:space:]]*}" < /dev/null > /dev/null 2>&1 3>&- 4>&- &
    asking+=("$!")
  done
  answering=''
  for i in "${!lines[@]}"; do
    if wait "${asking[i]}"; then answering+=${answering:+$'\n'}${lines[i]}; fi
  done
}

# Waits until all hosts answer, at most so many seconds.
await_hosts() {
  local deadline=$((SECONDS + $1)) said=''
  while look; [ "$answering" != "$(host_lines)" ] && ! $asked; do
    local silent
    silent=$(host_lines | grep -vxFf <(echo "$answering") | awk '{print $1}' | paste -sd ' ')
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "mpirun.sh: no answer within $1 s (--wait) from $silent; is $octet there, and does '${agent[*]} HOST true' work?" >&2
      exit 205
    fi
    [ "$said" = "$silent" ] || echo "mpirun.sh: waiting for $silent" >&2
    said=$silent
    sleep 2 || true
  done
  if $asked; then exit 85; fi
}
