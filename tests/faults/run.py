"""Runs the faults of faults.py. tests/faults/run.sh calls this, and says how it is used."""

import argparse
import json
import os
import re
import subprocess
import sys
import time

from faults import FAULTS
from page import DATA, write_page
from rig import OCTET, PATIENCE, Rig, Skip, alive

SKIPPED_KEYS = ("comm.timeout_seconds", "checkpoint.every_steps")  # weights do not depend on them
DIGESTS = {}  # of undisturbed runs


def undisturbed(rig, seconds=PATIENCE):
    """The digest of the weights that a run with these settings ends with."""
    settings = {key: value for key, value in rig.settings.items() if key not in SKIPPED_KEYS}
    key = (rig.ranks, json.dumps(settings, default=str))
    if key not in DIGESTS:
        whole = Rig(rig.ranks, settings)
        whole.octet = rig.octet
        try:
            if whole.start().process.wait(seconds) != 0:
                raise AssertionError(f"the undisturbed run failed: {whole.jobs[-1]}")
            DIGESTS[key] = digest(whole)
        finally:
            whole.close()
    return DIGESTS[key]


def digest(rig):
    try:
        return json.loads((rig.run / "result.json").read_text())["weights_sha256"]
    except FileNotFoundError:
        return None


def torn_lines(rig):
    """Lines of metrics.jsonl that are no JSON."""
    count, file = 0, rig.run / "metrics.jsonl"
    for line in file.read_bytes().splitlines() if file.exists() else []:
        try:
            json.loads(line)
        except ValueError:
            count += 1
    return count


def end(job, seconds):
    """The exit code, or None, and the number of processes that went on after the launcher."""
    try:
        code = job.process.wait(max(1, seconds))
    except subprocess.TimeoutExpired:
        job.ended = time.monotonic()
        job.kill()
        return None, 0
    job.ended = time.monotonic()
    deadline = job.ended + 8
    while (left := job.processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [process for process in left if alive(process)]
    return (code if code >= 0 else 128 - code), len(left)


def message(fault, text):
    """The first line of what matters."""
    lines = [re.sub(r"\x1b\[[0-9;]*m|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line).strip() for line in text.splitlines()]
    words = fault.words or r"warning|error|watchdog|mpirun|ORTE"
    return next((line for line in lines if re.search(words, line)), "")


def judge(fault, row, left, code, rig):
    """What was not handled well."""
    found = []
    if code is None:
        found.append(f"did not end within {fault.seconds} s")
    elif code not in fault.codes:
        found.append(f"exit code {code}, not {' or '.join(map(str, fault.codes))}")
    if left:
        found.append("the job went on without its launcher")
    if fault.words and not row["message"]:
        found.append(f"said nothing like '{fault.words}'")
    if row["named"] is False:
        found.append("the cause was not named")
    if row["equal"] is False:
        found.append("the weights differ, or the run did not come to its end")
    if row["equal"] is not None and (torn := torn_lines(rig)):
        found.append(f"{torn} lines of metrics.jsonl are no JSON")
    return found


def lost_steps(rig, job):
    """Steps that were done and had to be done again."""
    if {"--retries", "--elastic"} & set(rig.options):
        return None
    resumed = re.search(r"resumed \S+ at step (\d+)", job.err)
    if resumed:
        return max(0, rig.reached - int(resumed[1]))
    return 0 if "is finished" in job.err or job is rig.jobs[0] else rig.reached


def inject(fault):
    """Injects one fault, and resumes the run after it. The row of the page."""
    rig = Rig(fault.ranks, fault.settings)
    try:
        fault.inject(rig)
        job = rig.jobs[-1]
        waited = time.monotonic() - rig.injected
        code, left = end(job, fault.seconds - waited)
        seconds = job.ended - rig.injected
        text = f"{rig.said}\n{job.err}\n{job.out}"
        named = bool(re.search(fault.culprit, text)) if fault.culprit else None
        row = {"fault": fault.name, "seconds": round(seconds, 1), "message": message(fault, text), "named": named,
               "code": code, "lost": None, "equal": None}
        row["message"] = row["message"].replace(str(rig.directory), "DIR").replace(OCTET, "octet")
        job.kill()
        for act in rig.heal:
            act()
        if fault.resumes:
            finished = code == 0 and digest(rig) is not None
            last = job if finished else rig.start(resume=True)
            end(last, PATIENCE)
            row["lost"] = lost_steps(rig, last)
            row["equal"] = digest(rig) == undisturbed(rig) if rig.compares else None
            if rig.compares and not row["equal"]:
                print(last)
        row["findings"] = judge(fault, row, left, code, rig)
        if row["findings"]:
            print(job)
        return row
    finally:
        rig.close()


def run_one(fault):
    """A line in GoogleTest's form, which tests/run.sh counts."""
    started = time.monotonic()
    try:
        row = inject(fault)
    except Skip as reason:
        row = {"fault": fault.name, "skipped": str(reason), "findings": []}
    except (AssertionError, OSError, subprocess.SubprocessError, LookupError) as error:
        row = {"fault": fault.name, "skipped": f"could not be injected: {type(error).__name__}",
               "findings": ["not injected"]}
        print(error)
    word = "  SKIPPED " if "skipped" in row and not row["findings"] else "  FAILED  " if row["findings"] else "       OK "
    print(f"[{word}] Faults.{fault.name} ({1e3 * (time.monotonic() - started):.0f} ms)", flush=True)
    for found in [row.get("skipped"), *row["findings"]]:
        if found:
            print(f"  {found}", flush=True)
    return row


def save(rows):
    """In the order of the table."""
    ordered = [rows[fault.name] | {"remark": fault.remark} for fault in FAULTS if fault.name in rows]
    DATA.write_text(json.dumps({"rows": ordered}, indent=1, ensure_ascii=False) + "\n")
    write_page(ordered)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if re.search(options.only, fault.name) and (fault.quick or not options.quick)]
    if options.list:
        print("\n".join(fault.name for fault in chosen))
        return
    if not chosen:
        sys.exit(f"{sys.argv[0]}: no fault is called like '{options.only}'; --list prints the names")
    if not os.access(OCTET, os.X_OK):
        sys.exit(f"{sys.argv[0]}: {OCTET} does not exist; build it, or name it: OCTET=...")
    rows = {}
    if not options.quick and options.only and DATA.exists():
        rows = {row["fault"]: row for row in json.loads(DATA.read_text())["rows"]}
    started = time.monotonic()
    failed = 0
    for fault in chosen:
        before = time.monotonic()
        row = run_one(fault)
        row["took"] = round(time.monotonic() - before, 1)
        failed += bool(row["findings"])
        rows[fault.name] = row
        if not options.quick:
            save(rows)  # what has been run stays when the rest is interrupted
    if not options.quick:
        save(rows)
    print(f"{len(chosen)} faults in {time.monotonic() - started:.0f} s, {failed} not handled well", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
