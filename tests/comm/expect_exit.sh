#!/bin/sh
# expect_exit.sh WANTED SECONDS COMMAND...: runs the command, which must end within so many seconds with exit code WANTED
# ("fail": any but 0).
wanted=$1
seconds=$2
shift 2
timeout -k 2 "$seconds" "$@"
code=$?
echo "exit code $code, wanted $wanted"
case $code in 124) exit 1 ;; esac
if [ "$wanted" = fail ]; then [ "$code" -ne 0 ]; else [ "$code" -eq "$wanted" ]; fi
