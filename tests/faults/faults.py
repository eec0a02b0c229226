"""The table of faults. Each has a function that prepares a rig, starts a training and injects the fault."""

import dataclasses
import json
import os
import re
import shutil
import signal
import time
import typing

from files_and_mismatches import (
    another_build, another_data, another_key, another_network, broken_config, damage, flip, in_use, latest, missing_data,
    no_mpirun, no_octet, other_ranks, out_of_memory, torn_metrics, unreachable_host, weights)
from rig import AT, ENDLESS, Rig, send

HANG = r"watchdog: .*ending the job"
STOPPED = r"stopped by a signal at step \d+"
ON_SIGNAL = r"exited on signal \d+"


@dataclasses.dataclass
class Fault:
    name: str              # in the page: what is done
    inject: typing.Callable[[Rig], object]
    codes: tuple           # the exit codes that handle it well
    words: str = ""        # a pattern of what is said then; empty: nothing needs to be said
    culprit: str = ""      # a pattern that names the cause rightly; empty: there is nothing to name
    ranks: int = 2
    settings: dict = dataclasses.field(default_factory=dict)
    seconds: int = 90      # in which the launcher must return
    resumes: bool = True   # the run goes on to its end after that, and its weights are compared
    quick: bool = False    # also in the short run
    remark: str = ""       # in the page, where it is not handled well


# Killed.

def kill(rank, number=signal.SIGKILL, step=AT):
    def inject(rig):
        job = rig.start()
        rig.until_step(job, step)
        rank_process = job.ranks()[rank]
        rig.now()
        os.kill(rank_process, number)
    return inject


def kill_launcher(name, number=signal.SIGKILL):
    """name: "mpirun", or "" for the script."""
    def inject(rig):
        job = rig.start()
        rig.until_step(job)
        process = job.child(name) if name else job.process.pid
        rig.now()
        os.kill(process, number)
    return inject


def kill_script_and_start_again(rig):
    """At once, while the ranks that have lost their script still write their checkpoint."""
    first = rig.start()
    rig.until_step(first)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    rig.start(resume=True)


def kill_all(rig):
    job = rig.in_mid_run()
    job.kill()


def kill_all_after(seconds):
    def inject(rig):
        job = rig.start()
        time.sleep(seconds)
        rig.now()
        job.kill()
    return inject


def kill_at_start(rig):
    """As soon as rank 1 is octet, before the ranks have joined."""
    job = rig.start()
    rig.until(lambda: 1 in job.ranks(), "with rank 1", job)
    process = job.ranks()[1]
    rig.now()
    os.kill(process, signal.SIGKILL)


def while_saving(act):
    def inject(rig):
        rig.preload(FAULT_FSYNC=2)
        job = rig.start()
        rig.until(lambda: list((rig.run / "checkpoints").glob("step-00000010*.tmp")), "saving", job)
        rig.now()
        act(job)
    return inject


def kill_and_retry(rig):
    rig.options = ["--retries", "2"]
    kill(1)(rig)


# Signalled.

def signal_after(number, seconds):
    """To the script, so long after its start."""
    def inject(rig):
        job = rig.start()
        time.sleep(seconds)
        rig.now()
        send(job.process.pid, number)
    return inject


def signal_twice(rig):
    job = rig.in_mid_run()
    for _ in range(2):
        send(job.process.pid, signal.SIGTERM)
        time.sleep(0.02)


# Hanging.

def stop_and_go_on(choose, seconds):
    """Processes of the job are stopped for so long."""
    def inject(rig):
        job = rig.start()
        rig.until_step(job)
        stopped = choose(job)
        rig.now()
        for process in stopped:
            send(process, signal.SIGSTOP)
        time.sleep(seconds)
        for process in stopped:
            send(process, signal.SIGCONT)
    return inject


def stop_before_mpi(rig):
    rig.wrap('[ "$rank" != 1 ] || kill -STOP $$')
    rig.start()


def slow_rank(rig):
    """Rank 1 is stopped for four fifths of the time, until the log names it; `octet status` is asked meanwhile."""
    job = rig.start()
    rig.until_step(job)
    process, deadline = job.ranks()[1], time.monotonic() + 110
    rig.now()
    while job.process.poll() is None and time.monotonic() < deadline and "times" not in rig.said:
        for _ in range(20):
            send(process, signal.SIGSTOP)
            time.sleep(0.04)
            send(process, signal.SIGCONT)
            time.sleep(0.01)
        lines = [line for line in job.err.splitlines() if re.search(r"rank 1 on .* times", line)]
        rig.said = lines[0] if lines else ""
    seconds = time.monotonic() - rig.injected
    status = json.loads(rig.octet_says("status", "--json", rig.run).stdout)
    slowest = max(status["ranks"], key=lambda rank: rank["own_step_seconds"])["rank"]
    rig.said = (rig.said or "the log names nobody") + f"; after {seconds:.0f} s; slowest in octet status: rank {slowest}"
    send(job.process.pid, signal.SIGTERM)


# Two hosts.

def on_two_hosts(act):
    """act(rig, job) at the step."""
    def inject(rig):
        rig.two_hosts()
        job = rig.start()
        rig.until_step(job)
        rig.heal.append(lambda: rig.set_link("up"))
        ranks = job.ranks()
        rig.now()
        act(rig, job, ranks)
    return inject


def freeze_host(rig, job, _ranks):
    for process in rig.on_second_host(job):
        send(process, signal.SIGSTOP)


def kill_daemon(rig, job, _ranks):
    """orted, Open MPI's daemon of the second host."""
    here = set(rig.on_second_host(job))
    os.kill(next(process for process in here if process == job.child("orted")), signal.SIGKILL)


def cut_and_heal(rig, _job, _ranks):
    rig.set_link("down")
    time.sleep(3)
    rig.set_link("up")


def bridge_on_each(name, **variables):
    """Without INTERFACE, unless it is among the variables."""
    def inject(rig):
        rig.two_hosts()
        for host in rig.hosts.up.values():
            host.add_bridge(name)
        del rig.variables["INTERFACE"]
        rig.variables |= variables
        rig.now()
        rig.start()
    return inject


def daemon_without_way_back(rig):
    """The agent reaches the second host, but nothing from there reaches mpirun."""
    rig.two_hosts()
    rig.hosts.up["second"].run("ip", "neighbour", "replace", rig.hosts.up["first"].address,
                                "lladdr", "02:00:00:4e:00:99", "dev", "eth0", "nud", "permanent")
    rig.variables |= {"START": 12}
    rig.now()
    rig.start()


def lose_hosts(*lost, back=()):
    """Of four, of which an elastic job loses some. It goes on without them, and with those that come back."""
    def inject(rig):
        rig.make_hosts("first", "second", "third", "fourth")
        rig.launcher = rig.hosts.login.enter
        rig.options.append("--elastic")
        rig.variables["PROBE"] = 1
        rig.ranks = 1  # of the undisturbed run
        job = rig.start()
        rig.until_step(job)
        rig.now()
        for name in lost:
            rig.hosts.kill(name)
        rig.until_said(job, f"{4 - len(lost)} of 4 hosts answer")
        for name in back:
            rig.hosts.start(name)
    return inject


# Disks.

def fill(rig, disk):
    """Takes all space that is left. Returns what frees it."""
    filler = disk / "filler"

    def free():
        filler.unlink(missing_ok=True)
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    rig.heal.append(free)
    return free


def full_at_start(rig):
    fill(rig, rig.small_disk(1))
    rig.start()
    rig.heal.append(lambda: rig.remount("size=20m"))


def full_from(step, heal_at=""):
    """heal_at: words after which there is space again."""
    def inject(rig):
        elsewhere = rig.directory / "elsewhere"
        elsewhere.mkdir()
        rig.variables["TMPDIR"] = elsewhere
        disk = rig.small_disk(20)
        job = rig.start()
        rig.until_step(job, step)
        rig.now()
        free = fill(rig, disk)
        if heal_at:
            rig.until_said(job, heal_at)
            time.sleep(1)
            free()
    return inject


def read_only(rig):
    rig.small_disk(20)
    rig.remount("ro")
    rig.start()
    rig.heal.append(lambda: rig.remount("rw"))


def preloaded(**variables):
    def inject(rig):
        rig.preload(**variables)
        rig.start()
    return inject


def delete_folder(name, then=None):
    """Of the run, in mid-run. then: the signal that asks for a checkpoint at once."""
    def inject(rig):
        job = rig.in_mid_run()
        shutil.rmtree(rig.run / name, ignore_errors=True)
        if then:
            send(job.process.pid, then)
    return inject


def delete_heartbeats(rig):
    job = rig.in_mid_run()
    (rig.run / "heartbeats").unlink()


SOON, LIMIT = {"comm.timeout_seconds": 3}, {"comm.timeout_seconds": 10}
LONG = {"train.steps": 300}  # a few seconds on a fast machine: what takes time to arrive finds the training at work
EXACT = {**LONG, "comm.exchange": "exact", "train.norm_group": 8}  # equal weights on 1, 2 and 4 ranks
FAULTS = [
    Fault("kill rank 0", kill(0), (137,), ON_SIGNAL, r"process rank 0 "),
    Fault("kill rank 1", kill(1), (137,), ON_SIGNAL, r"process rank 1 ", quick=True),
    Fault("kill rank 2 of 4", kill(2), (137,), ON_SIGNAL, r"process rank 2 ", ranks=4),
    Fault("kill rank 1, with `--retries 2`", kill_and_retry, (0,), r"attempt 1 of 2 to resume", r"process rank 1 "),
    Fault("kill rank 1 by SIGSEGV", kill(1, signal.SIGSEGV), (139,), ON_SIGNAL, r"process rank 1 "),
    Fault("kill rank 1 while the ranks join", kill_at_start, (137,), ON_SIGNAL, r"process rank 1 "),
    Fault("kill mpirun", kill_launcher("mpirun"), (137,)),
    Fault("kill mpirun.sh", kill_launcher(""), (137,), settings=LONG),
    Fault("kill mpirun.sh, start again at once", kill_script_and_start_again, (0,), r"resumed \S+ at step \d+",
          settings=LONG),
    Fault("kill everything", kill_all, (137,), quick=True),
    Fault("kill everything 0.3 s after the start", kill_all_after(0.3), (137,)),
    Fault("kill everything 1 s after the start", kill_all_after(1), (137,), settings=LONG),
    Fault("kill rank 0 while it saves", while_saving(lambda job: os.kill(job.ranks()[0], signal.SIGKILL)), (137,),
          ON_SIGNAL, r"process rank 0 "),
    Fault("kill everything while rank 0 saves", while_saving(lambda job: job.kill()), (137,)),
    *[Fault(f"signal {number.name} to mpirun.sh {seconds} s after the start", signal_after(number, seconds), (85,),
            r"the ranks write a checkpoint", settings=LONG,
            quick=(number, seconds) == (signal.SIGTERM, 0.5))
      for number, moments in ((signal.SIGTERM, (0.05, 0.2, 0.5, 1, 2)), (signal.SIGUSR1, (0.05, 0.3, 1, 2)))
      for seconds in moments],
    Fault("signal SIGTERM to mpirun.sh in mid-run", kill_launcher("", signal.SIGTERM), (85,), STOPPED, settings=LONG),
    Fault("signal SIGINT to mpirun.sh in mid-run", kill_launcher("", signal.SIGINT), (85,), STOPPED, settings=LONG),
    Fault("signal SIGHUP to mpirun.sh in mid-run", kill_launcher("", signal.SIGHUP), (85,), STOPPED, settings=LONG),
    Fault("signal SIGTERM to mpirun.sh twice", signal_twice, (1, 85, 137, 143), r"a second signal ends them at once",
          settings=LONG),
    Fault("signal SIGTERM to mpirun in mid-run", kill_launcher("mpirun", signal.SIGTERM), (85,), STOPPED,
          settings=LONG, remark="Open MPI kills the ranks two seconds after the signal, here before their checkpoint"),
    Fault("signal SIGUSR1 to rank 1", kill(1, signal.SIGUSR1), (85,), STOPPED, settings=LONG),
    Fault("signal SIGTERM to rank 0", kill(0, signal.SIGTERM), (85,), STOPPED, settings=LONG),
    Fault("signal SIGTERM while rank 0 saves", while_saving(lambda job: send(job.process.pid, signal.SIGTERM)), (85,),
          STOPPED, settings=LONG),

    Fault("hang: rank 1 stopped, timeout 3 s", kill(1, signal.SIGSTOP), (83,), HANG, r"watchdog: rank 1 on \S+ \(pid",
          settings=SOON, quick=True),
    Fault("hang: rank 1 stopped, timeout 10 s", kill(1, signal.SIGSTOP), (83,), HANG, r"watchdog: rank 1 on \S+ \(pid",
          settings=LIMIT),
    Fault("hang: rank 0 stopped, timeout 10 s", kill(0, signal.SIGSTOP), (83,), HANG, r"watchdog: rank 0 on \S+ \(pid",
          settings=LIMIT),
    Fault("hang: rank 3 of 4 stopped, timeout 10 s", kill(3, signal.SIGSTOP), (83,), HANG,
          r"watchdog: rank 3 on \S+ \(pid", ranks=4, settings=LIMIT),
    Fault("hang: rank 1 stopped before MPI_Init, timeout 10 s", stop_before_mpi, (83,), HANG, r"rank(\(s\))? 1",
          settings=LIMIT),
    Fault("hang: rank 1 stopped for 5 s, timeout 10 s", stop_and_go_on(lambda job: [job.ranks()[1]], 5), (0,),
          r"watchdog: no progress: rank 1", r"rank 1 on \S+ \(pid", settings=LIMIT),
    Fault("hang: everything stopped for 15 s, timeout 10 s", stop_and_go_on(lambda job: job.processes(), 15), (0,),
          settings=LIMIT),
    Fault("hang: mpirun stopped for 5 s", stop_and_go_on(lambda job: [job.child("mpirun")], 5), (0,)),
    Fault("slow: rank 1 stopped for 80 % of the time", slow_rank, (85,), r"rank 1 on .* times",
          r"slowest in octet status: rank 1", settings=ENDLESS, seconds=180, resumes=False),

    Fault("hosts: rank on the other host killed", on_two_hosts(lambda rig, job, ranks: os.kill(ranks[1], signal.SIGKILL)),
          (137,), ON_SIGNAL, r"rank 1 .*second"),
    Fault("hosts: daemon on the other host killed", on_two_hosts(kill_daemon), (137, 205), r"lost communication|daemon",
          r"on (node )?second"),
    Fault("hosts: other host frozen, timeout 10 s", on_two_hosts(freeze_host), (83,), HANG, r"rank 1 on second",
          settings=LIMIT),
    Fault("hosts: link cut for 3 s", on_two_hosts(cut_and_heal), (0,)),
    Fault("hosts: link cut for ever", on_two_hosts(lambda rig, job, ranks: rig.set_link("down")), (205,),
          r"lost communication", r"on (node )?second"),
    Fault("hosts: link cut for ever, timeout 10 s", on_two_hosts(lambda rig, job, ranks: rig.set_link("down")),
          (83, 205), r"lost communication|" + HANG, r"on (node )?second|answer from 10\.78\.0\.3", settings=LIMIT),
    Fault("hosts: one cannot be reached", unreachable_host, (1, 255), r"[Cc]ould not resolve|resolve hostname",
          r"no-such-host"),
    Fault("hosts: docker0 with the same address on each", bridge_on_each("docker0"), (0,), settings=LIMIT),
    Fault("hosts: a bridge of another name, the same address", bridge_on_each("bridge1"), (83,),
          r"not seen from here: \S+; this host has .*bridge1 172\.17\.0\.1", r"not seen from here: (first|second)",
          settings=LIMIT, resumes=False),
    Fault("hosts: the same, with `INTERFACE=eth0`", bridge_on_each("bridge1", INTERFACE="eth0"), (0,), settings=LIMIT),
    Fault("hosts: nothing from the other host reaches mpirun", daemon_without_way_back, (84,),
          r"no rank has started for 12 s", r"INTERFACE=eth0", resumes=False),
    Fault("hosts: one of four lost and back, `--elastic`", lose_hosts("third", back=["third"]), (0,),
          r"other hosts are there", r"3 of 4 hosts answer; 2 ranks on first second fourth", settings=EXACT, quick=True),
    Fault("hosts: two of four lost, with rank 0, `--elastic`", lose_hosts("first", "third"), (0,),
          r"2 of 4 hosts answer", r"2 ranks on second fourth", settings=EXACT),

    Fault("disk: full at the start", full_at_start, (74,), r"No space left", r"run", quick=True),
    Fault("disk: full from step 12 on, timeout 10 s", full_from(AT), (74,), r"the trained weights are in", r"No space left",
          settings=LIMIT),
    Fault("disk: full, space again in mid-run", full_from(AT, "no checkpoint at step"), (0,), r"no checkpoint at step",
          r"No space left", settings=LONG),
    Fault("disk: full at the end, space again in time", full_from(32, "trying again"), (0,), r"trying again",
          r"No space left"),
    Fault("disk: read-only run directory", read_only, (2, 74), r"Read-only file system", r"run"),
    Fault("disk: fsync takes 15 s, timeout 10 s", preloaded(FAULT_FSYNC=15), (0,),
          settings={**LIMIT, "train.steps": 12, "checkpoint.every_steps": 6}),
    Fault("disk: fsync of checkpoints fails", preloaded(FAULT_FSYNC="fail"), (0,), r"no checkpoint at step",
          r"Input/output error"),
    Fault("files: checkpoints/ deleted in mid-run", delete_folder("checkpoints"), (0,)),
    Fault("files: checkpoints/ deleted, then SIGTERM", delete_folder("checkpoints", signal.SIGTERM), (85,), STOPPED,
          settings=LONG),
    Fault("files: whole run directory deleted in mid-run", delete_folder(""), (0,), r"warning: .* was deleted in mid-run",
          r"/run(/\S+)? was deleted", settings=LIMIT),
    Fault("files: heartbeats deleted in mid-run", delete_heartbeats, (0,)),
    Fault("files: `latest` missing", latest(None), (0,), r"resumed \S+ at step 12", quick=True),
    Fault("files: `latest` names a missing file", latest("step-00000999.safetensors\n"), (0,), r"resumed \S+ at step 12"),
    Fault("files: `latest` holds random bytes", latest("\x01\x7f\n\n"), (0,), r"resumed \S+ at step 12"),
    *[Fault(f"files: {words}", damage(change, every), (4,) if every else (0,),
            r"none of .* can be used" if every else r"warning: .*step-00000012", r"step-00000012", quick=quick)
      for words, change, every, quick in (
          ("a bit flipped in the newest checkpoint", lambda data: flip(data, len(data) // 2),
           False, True),
          ("a bit flipped in the header of the newest checkpoint", lambda data: flip(data, 20),
           False, False),
          ("newest checkpoint cut to half", lambda data: data[:len(data) // 2], False, False),
          ("newest checkpoint cut to 7 bytes", lambda data: data[:7], False, False),
          ("newest checkpoint empty", lambda data: b"", False, False),
          ("newest checkpoint with 100 bytes more", lambda data: data + bytes(100), False, False),
          ("all checkpoints cut to half", lambda data: data[:len(data) // 2], True, False))],
    Fault("files: a bit flipped in weights.safetensors, then `octet eval`", weights(
        lambda data: flip(data, len(data) // 2)), (2,), r"has changed since", r"weights",
          resumes=False),
    Fault("files: weights.safetensors cut to half, then `octet eval`", weights(lambda data: data[:len(data) // 2]),
          (2,), r"error", r"weights\.safetensors", resumes=False),
    Fault("files: newest checkpoint is of another network", another_network, (0,), r"warning: .*model\.name",
          r"step-00000012\S+ is of another run"),
    Fault("files: torn and foreign lines at the end of metrics.jsonl", torn_metrics, (0,), quick=True),
    Fault("files: config.yaml of the run is damaged", broken_config, (0,)),

    Fault("mismatch: another learning rate on rank 1", another_key, (2,), r"train\.lr", r"rank 1 on \S+"),
    Fault("mismatch: other images on rank 1", another_data, (2,), r"different data", r"rank 1 on \S+"),
    Fault("mismatch: an image missing on rank 1", missing_data(False), (2,), r"different data", r"rank 1 on \S+"),
    Fault("mismatch: no data on rank 1", missing_data(True), (2,), r"error", r"rank 1 on \S+"),
    Fault("mismatch: another build on rank 1 (a byte of the linker's id changed)", another_build, (2,),
          r"install the same build|runs ", r"rank 1 on \S+", quick=True),
    Fault("other: run directory in use by another training", in_use, (75,), r"is in use by", r"process \d+ on \S+",
          settings=ENDLESS, resumes=False, quick=True),
    Fault("other: resumed on 1 rank, not 2 (int8)", other_ranks({}), (0,), r"warning: .*ranks", r"2"),
    Fault("other: resumed on 1 rank, not 2 (exact)", other_ranks({"comm.exchange": "exact", "train.norm_group": 8}), (0,),
          r"resumed \S+ at step 12"),
    Fault("other: rank 1 out of memory (ulimit -v)", out_of_memory, (1, 2), r"memory", r"rank 1 on \S+",
          settings={"data.batch": 1024, "data.samples": 1024}, resumes=False),
    Fault("other: clock jumps an hour ahead", preloaded(FAULT_CLOCK=3600), (0,), settings={**LIMIT, **LONG}),
    Fault("other: clock jumps an hour back", preloaded(FAULT_CLOCK=-3600), (0,), settings={**LIMIT, **LONG}),
    Fault("other: no mpirun on PATH", no_mpirun, (2, 127), r"mpirun", r"mpirun"),
    Fault("other: no octet", no_octet, (2,), r"does not exist", r"build it"),
]
