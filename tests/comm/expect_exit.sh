#!/bin/sh
# expect_exit.sh WANTED SECONDS COMMAND...: runs the command, which must end within SECONDS with exit code WANTED ("fail": any
# but 0).
wanted=$1
seconds=$2
shift 2
start=$(date +%s)
timeout -k 10 "$seconds" "$@"
code=$?
took=$(($(date +%s) - start))
echo "exit code $code, wanted $wanted, after $took s"
[ "$took" -lt "$seconds" ] || exit 1
if [ "$wanted" = fail ]; then [ "$code" -ne 0 ]; else [ "$code" -eq "$wanted" ]; fi
