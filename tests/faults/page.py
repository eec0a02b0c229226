"""docs/results/faults.md, from the rows of the last runs."""

import datetime
import json
import os
import re
import subprocess
import textwrap

from faults import FAULTS
from rig import OCTET, ROOT

DATA = ROOT / "docs/results/data/faults.json"
RECORDS = ROOT / "docs/results/data/endurance.json"
PAGE = ROOT / "docs/results/faults.md"
NOT_RUN = ("GPUs and NCCL; real hosts with ssh, InfiniBand and NFS; Slurm ([hosts and Slurm](hosts-and-slurm.md)); delay "
           "and loss of packets; lack of memory in a cgroup; more than four ranks; loss of power of a disk, whose fsync "
           "lies; a clock that differs between hosts.")


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout


def program():
    """The commit of octet."""
    return re.search(r"commit (\S+)\)", said(OCTET, "--version"))[1]


def endurance():
    """The section of endurance.py's tests."""
    if not RECORDS.exists():
        return []
    lines = ["", "## At random moments, and for a long time", "",
             "Each row names its command. JSON: [data/endurance.json](data/endurance.json).", "",
             "| what was done | what happened | date, commit, command |", "|---|---|---|"]
    for record in json.loads(RECORDS.read_text()).values():
        lines.append(f"| {record['what']} | {record['result']} | {record['date']}, {record['commit']}, `{record['command']}` |")
    return lines


def cell(value):
    """Of a figure, or of yes and no; None does not apply."""
    return "" if value is None else "yes" if value is True else "**no**" if value is False else value


def code_of(text):
    """As Markdown code; long lines are cut."""
    text = text if len(text) <= 150 else text[:147] + "..."
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`" if text else ""


def write_page(rows):
    processor = re.search(r"Model name: *(.*)", said("lscpu"))[1]
    scripts = said("git", "log", "-1", "--format=%h", "--", "launch").strip()
    run = [row for row in rows if "skipped" not in row]
    skipped = [row for row in rows if "skipped" in row]
    bad = [row for row in run if row["findings"]]
    seconds = sum(row["took"] for row in rows)

    def paragraph(text):
        return textwrap.fill(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)

    lines = ["# Faults", "", paragraph(
        f"""{datetime.date.today()}, {processor}, {os.cpu_count()} cores. The program is of commit {program()},
        `launch/mpirun.sh` of {scripts}. Command: `tests/faults/run.sh` ({seconds / 60:.0f} minutes); `--quick` runs
        {sum(fault.quick for fault in FAULTS)} of them.
        ResNet-20 on `shapes`, 40 or 300 steps of 32 images, a checkpoint every 5 steps, one thread for each rank, two ranks
        if the row does not say otherwise. JSON: [data/faults.json](data/faults.json)."""), "", paragraph(
        """Each fault happens to a real training, mostly at step 12. "Seconds" are those from the fault until the launcher
        returned; where the training went on, until its end. The message is the first line that matters; a message of octet
        has a second line, with a remedy. "Named" says whether the rank, host or file at fault was named rightly. Then the run
        was resumed: "lost" are steps that were done again, "equal" says whether the weights of the end are those of an
        undisturbed run (`weights_sha256`). Empty: does not apply. Two hosts are network namespaces of one machine, a full
        disk is a small tmpfs; slow and failing disks and clocks that jump come from a library that is loaded before the C
        library. A rank says once a second what it does: "last seen" can be steps behind."""), "",
        f"{len(run)} faults were injected, {len(run) - len(bad)} were handled well.", "",
        "| fault | seconds | exit code | message | named | lost | equal |", "|---|---|---|---|---|---|---|"]
    for row in run:
        code = "none" if row["code"] is None else row["code"]
        mark = " (!)" if row["findings"] else ""
        lines.append(f"| {row['fault']}{mark} | {row['seconds']} | {code} | {code_of(row['message'])} | {cell(row['named'])} | "
                     f"{cell(row['lost'])} | {cell(row['equal'])} |")
    lines += ["", "## Not handled well", ""]
    for row in bad:
        text = f"- {row['fault']}: {'; '.join(row['findings'])}." + (f" {row['remark']}." if row.get("remark") else "")
        lines += textwrap.wrap(text, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    if not bad:
        lines.append("None.")
    lines += endurance()
    lines += ["", "## Not run", ""]
    for row in skipped:
        lines += textwrap.wrap(f"- {row['fault']}: {row['skipped']}", 118, subsequent_indent="  ")
    lines += [""] if skipped else []
    lines += [paragraph(NOT_RUN)]
    PAGE.write_text("\n".join(lines) + "\n")
