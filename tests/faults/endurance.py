#!/usr/bin/env python3
"""Many faults at random moments, and long trainings among faults. Prints what happened, and keeps it for docs/results/faults.md.

kills    SIGKILL of a rank, mpirun, everything or a host: during start-up, while a checkpoint is saved, at any moment
signals  of launch/mpirun.sh in the first three seconds after its start
slurm    signals and preemptions of four jobs of two nodes, in the first seconds after their start
elastic  four hosts, of which one is lost every minute and started again after two
goodput  SIGKILL of a rank every two minutes: the share of the time in which steps were computed that were kept
"""

import argparse
import collections
import concurrent.futures
import datetime
import json
import random
import re
import signal
import subprocess
import sys
import time

from page import RECORDS, program, write_page
from rig import OCTET, Rig, send
from run import DATA, digest, end, undisturbed

LIMIT = 300  # seconds in which a launcher must return


class Runs:
    """Trainings that are disturbed and resumed until they are done, one after the other."""

    def __init__(self, make):
        self.make, self.rig, self.ended, self.equal, self.failures = make, None, 0, 0, 0

    def start(self):
        """Of a new run, or of the present one again."""
        if self.rig is None:
            self.rig = self.make()
            return self.rig.start()
        return self.rig.start(resume=True)

    def finish(self, job):
        """Waits for the end of the run, and compares its weights. A run that does not come to its end is a failure."""
        code, _ = end(job, LIMIT)
        self.ended += 1
        if code == 0:
            self.equal += digest(self.rig) == undisturbed(self.rig)
        else:
            print(job)
            self.failures += 1
        self.rig.close()
        self.rig = None

    @property
    def good(self):
        return self.failures == 0 and self.equal == self.ended

    def __str__(self):
        resumed = "all were resumed" if self.failures == 0 else f"{self.failures} could NOT be resumed"
        return f"{resumed}; {self.equal} of {self.ended} runs end with the weights of the undisturbed one"

    def disturb(self, count, act):
        """act(rig, job): false, if the run came to its end before. Returns what it returned, so often."""
        found = []
        while len(found) < count:
            job = self.start()
            if result := act(self.rig, job):
                found.append(result)
                print(f"{len(found)}: {result}", flush=True)
            else:
                self.finish(job)
        if self.rig:
            self.finish(self.start())
        return found


def running(job):
    return job.process.poll() is None


def wait_while_running(job, seconds):
    deadline = time.monotonic() + seconds
    while running(job) and time.monotonic() < deadline:
        time.sleep(0.002)
    return running(job)


def spread(values):
    return f"{min(values):.1f} to {max(values):.1f} s" if values else "(none)"


# Killed.

def on_two_hosts(steps=400):
    rig = Rig(2, {"train.steps": steps})
    rig.make_hosts("first", "second")
    rig.launcher = rig.hosts.login.enter
    return rig


def until_moment(rig, job, moment):
    """False: the job ended before."""
    if moment == "start-up":
        return wait_while_running(job, random.uniform(0, 1.5))
    if not wait_while_running(job, random.uniform(0.5, 5)):
        return False
    while moment == "saving" and running(job) and not list((rig.run / "checkpoints").glob("*.tmp")):
        time.sleep(0.0005)
    return running(job)


def strike(rig, job, target):
    """Kills the target, as soon as it is there."""
    if target == "everything":
        return job.kill()
    if target == "a host":
        name = random.choice(list(rig.hosts.up))
        rig.hosts.kill(name)
        return rig.heal.append(lambda: rig.hosts.start(name))
    find = {"a rank": lambda: random.choice(list(job.ranks().values()) or [None]), "mpirun": lambda: job.child("mpirun")}[target]
    process = find()
    while running(job) and not process:
        process = find()
    if process:
        send(process, signal.SIGKILL)


def kill(rig, job):
    target = random.choice(["a rank", "a rank", "mpirun", "everything", "a host"])
    moment = random.choice(["start-up", "saving", "mid-run", "mid-run"])
    if not until_moment(rig, job, moment):
        return None
    started = time.monotonic()
    strike(rig, job, target)
    code, left = end(job, LIMIT)
    if code == 0:
        return None
    job.kill()
    while rig.heal:
        rig.heal.pop()()
    return {"target": target, "moment": moment, "code": code, "seconds": round(job.ended - started, 1), "left": left}


def kills(count):
    runs = Runs(on_two_hosts)
    found = runs.disturb(count, kill)
    targets = collections.Counter(row["target"] for row in found)
    moments = collections.Counter(row["moment"] for row in found)
    ranks = [row["seconds"] for row in found if row["target"] == "a rank"]
    hosts = [row["seconds"] for row in found if row["target"] == "a host"]
    left = sum(row["left"] for row in found)
    told = ", ".join(f"{number} of {what}" for what, number in targets.most_common())
    when = ", ".join(f"{number} in {what}" for what, number in moments.most_common())
    return (f"{count} SIGKILLs on two hosts: {told}; {when}",
            f"{runs}; the launcher returned {spread(ranks)} after the loss of a rank, {spread(hosts)} after that of a host; {left} "
            "processes left", found, runs.good and left == 0)


# Signalled.

def signal_early(rig, job):
    number = random.choice([signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
    after = random.uniform(0, 3)
    if not wait_while_running(job, after):
        return None
    started = time.monotonic()
    send(job.process.pid, number)
    code, left = end(job, LIMIT)
    seconds = job.ended - started
    if code == 0 and seconds < 5:
        return None  # it came to its end meanwhile
    if code != 85:
        print(job)
    return {"signal": number.name, "after": round(after, 2), "code": code, "left": left, "seconds": round(seconds, 1)}


def signals(count):
    runs = Runs(lambda: on_two_hosts(1500) if random.random() < 0.5 else Rig(2, {"train.steps": 1500}))
    found = runs.disturb(count, signal_early)
    good = sum(row["code"] == 85 for row in found)
    early = [row["after"] for row in found if row["code"] in (129, 130, 138, 143) and row["seconds"] < 0.1]
    return (f"{count} signals (TERM, INT, USR1, HUP) to `launch/mpirun.sh` within 3 s after its start, half the runs on two hosts",
            f"{good} ended with 85, {len(early)} by the signal itself before the script's first line, within "
            f"{spread([row['seconds'] for row in found])}; {runs}", found, runs.good and good + len(early) == count)


# Under Slurm.

def wait_for_start(job, starts):
    """For the first line of the script, which says this number. Slurm cannot hold a signal for a script that it has yet to start."""
    from slurm_cluster import wait_until
    wait_until(lambda: f"restart {starts}," in job.log, lambda: f"a start of {job}", pause=0.005)


def signal_by_slurm(job, starts):
    """At the start of this number. How it went on, and after how many seconds the signal came."""
    from slurm_cluster import wait_until
    from slurm_jobs import ENDED, slurm
    wait_for_start(job, starts)
    after = random.uniform(0, 3)
    time.sleep(after)
    slurm("scancel", "--batch", "--signal=USR1", job.id)
    wait_until(lambda: job.field("Restarts") != str(starts) or job.field("JobState") in ENDED, lambda: f"a requeue of {job}")
    return {"after": round(after, 2), "requeued": job.field("Restarts") == str(starts + 1)}


def preempt(jobs, starts):
    """An urgent job takes the nodes of all jobs, when they run."""
    from slurm_cluster import FOLDER, wait_until
    from slurm_jobs import ENDED, slurm
    for job in jobs:
        wait_for_start(job, starts)
    time.sleep(random.uniform(0, 3))
    slurm("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", f"--output={FOLDER}/urgent.out", "--wrap=true")
    for job in jobs:
        wait_until(lambda: job.field("Restarts") != str(starts) or job.field("JobState") in ENDED, lambda: f"a requeue of {job}")
    return [{"requeued": job.field("Restarts") == str(starts + 1)} for job in jobs]


def slurm_jobs(count):
    import slurm_cluster
    slurm_cluster.enter()
    from slurm_cluster import wait_until
    from slurm_jobs import BatchJob
    slurm_cluster.Cluster()
    steps, rounds = {"train.steps": 1500}, count // 4
    jobs = [BatchJob(f"job{i}", "--partition=grace20", "--signal=B:USR1@120", train__steps=1500, train__epochs=1000,
                     checkpoint__every_steps=50) for i in range(4)]
    signalled = rounds * 3 // 5
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = sum(pool.map(lambda job: [signal_by_slurm(job, start) for start in range(signalled)], jobs), [])
    for start in range(signalled, rounds):
        found += preempt(jobs, start)
        print(f"{len(found)}: {sum(row['requeued'] for row in found)} requeued", flush=True)
    for job in jobs:
        wait_until(lambda: job.field("JobState") == "COMPLETED", lambda: f"the end of {job}", seconds=600)
    rig = Rig(2, steps)
    equal = [json.loads((job.run / "result.json").read_text())["weights_sha256"] for job in jobs].count(undisturbed(rig))
    rig.close()
    return (f"{4 * signalled} times `scancel --batch --signal=USR1` within 3 s after the first line of launch/slurm.sbatch on two nodes, then "
            f"{4 * (rounds - signalled)} preemptions within 6 s", f"{sum(row['requeued'] for row in found)} of {len(found)} requeued; "
            f"{equal} of 4 jobs end with the weights of the undisturbed run", found,
            equal == 4 and all(row["requeued"] for row in found))


# Among faults for a long time.

def elastic(steps):
    rig = Rig(1, {"train.steps": steps, "train.epochs": steps, "checkpoint.every_steps": 200, "comm.exchange": "exact", "train.norm_group": 8})
    names = ["first", "second", "third", "fourth"]
    rig.make_hosts(*names)
    rig.launcher, rig.options = rig.hosts.login.enter, [*rig.options, "--elastic"]
    rig.variables["PROBE"] = 15
    lost, back, started = [], {}, time.monotonic()
    try:
        job = rig.start()
        while running(job):
            time.sleep(0.1)
            now = time.monotonic() - started
            if now > 60 * (len(lost) + 1):
                lost.append(random.choice(list(rig.hosts.up)))
                rig.hosts.kill(lost[-1])
                back[now + 120] = lost[-1]
            for moment in [moment for moment in back if now > moment]:
                rig.hosts.start(back.pop(moment))
        code, _ = end(job, LIMIT)
        history = json.loads((rig.run / "result.json").read_text())["rank_history"] if code == 0 else "none"
        minutes = (time.monotonic() - started) / 60
        print(job)
        rig.settings["backend.threads"] = 2  # the undisturbed run, which has the machine for itself
        equal = digest(rig) == undisturbed(rig, seconds=3600)
    finally:
        rig.close()
    return (f"four hosts, `--elastic`, {steps} steps: one lost every minute, {len(lost)} in all, back after two",
            f"exit code {code} after {minutes:.1f} minutes; the weights are {'' if equal else 'NOT '}those of an undisturbed single "
            f"rank; ranks: {history}", lost, code == 0 and equal)


def goodput(minutes):
    rig = Rig(2, {"train.steps": 10**6, "train.epochs": 10**6, "data.batch": 128, "data.samples": 4096, "checkpoint.every_steps": 100})
    rig.options = ["--retries", "1000"]
    started, killed = time.monotonic(), 0
    try:
        job = rig.start()
        while running(job) and time.monotonic() - started < 60 * minutes:
            time.sleep(0.1)
            if time.monotonic() - started > 120 * (killed + 1) and killed + 1 < minutes / 2:  # not at the end
                send(random.choice(list(job.ranks().values())), signal.SIGKILL)
                killed += 1
        send(job.process.pid, signal.SIGTERM)
        code, _ = end(job, LIMIT)
        wall = job.ended - started
        records = [json.loads(line) for line in (rig.run / "metrics.jsonl").read_text().splitlines()]
        kept = [128 / record["images_per_second"] for record in records if "images_per_second" in record]
    finally:
        rig.close()
    share = sum(kept) / wall
    return (f"a SIGKILL of a rank every two minutes for {minutes} minutes, {killed} in all, `--retries`, a checkpoint every 100 steps",
            f"exit code {code}; {len(kept)} steps were kept, and computing them took {100 * share:.1f} % of {wall:.0f} s, from the first "
            "start to the last end", {"share": share, "steps": len(kept)}, code == 85)


TESTS = {"kills": (kills, 100), "signals": (signals, 200), "slurm": (slurm_jobs, 100), "elastic": (elastic, 25000), "goodput": (goodput, 20)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("amount", nargs="?", type=int, help="kills, signals, steps of elastic, minutes of goodput")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    options = parser.parse_args()
    random.seed(options.seed)
    print(f"seed {options.seed}", flush=True)
    test, amount = TESTS[options.test]
    amount = options.amount or amount
    what, result, raw, good = test(amount)
    print(f"{what}: {result}")
    records = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    records[options.test] = {"what": what, "result": result, "date": str(datetime.date.today()), "commit": program(),
                             "command": f"tests/faults/endurance.py {options.test} {amount} --seed {options.seed}", "rows": raw}
    RECORDS.write_text(json.dumps(records, indent=1) + "\n")
    write_page(json.loads(DATA.read_text())["rows"])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
