"""What faults are injected into: trainings on several ranks, small disks, and hosts that are network namespaces."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from hosts import Hosts, NoHosts  # noqa: E402
from harness import OCTET, RECIPE, ROOT, SMALL, Job, alive, environment, with_settings, write_png  # noqa: E402,F401

STEPS = 40  # of a training
AT = 12     # the step at which most faults are injected
SETTINGS = {**SMALL, "train.epochs": 1000, "train.steps": STEPS, "checkpoint.every_steps": 5}
ENDLESS = {"train.steps": 100000, "train.epochs": 100000}
PATIENCE = 120  # seconds in which what is waited for must happen, on slow cores too


class Skip(Exception):
    """The machine cannot do this."""


class Marked(Job):
    """A job whose processes are found by a variable in their environment, also those that have left its tree."""

    def __init__(self, command, directory, mark, limit=None):
        # A shell in the background ignores these two, and no script can trap what was ignored before it.
        super().__init__(["env", "--default-signal=HUP,INT", f"FAULT_MARK={mark}", *command], directory, limit)
        self.mark = f"FAULT_MARK={mark}\0".encode()

    def processes(self):
        found = set()
        for file in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.mark in file.read_bytes():
                    found.add(int(file.parent.name))
            except OSError:
                continue
        return {process for process in found if alive(process)}

    def ranks(self):
        found = {}
        for process in self.processes():
            try:
                variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().decode()
                program = os.path.basename(os.readlink(f"/proc/{process}/exe"))
            except OSError:
                continue
            rank = re.search(r"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", variables)
            if rank and program.startswith("octet"):
                found[int(rank[1])] = process
        return found

    def child(self, name):
        """The process of this job with this name."""
        for process in self.processes():
            try:
                if pathlib.Path(f"/proc/{process}/comm").read_text().strip() == name:
                    return process
            except OSError:
                continue
        return None

    def kill(self):
        deadline = time.monotonic() + PATIENCE
        while (left := self.processes()) and time.monotonic() < deadline:
            for process in left:
                send(process, signal.SIGKILL)
            time.sleep(0.02)
        self.process.wait(PATIENCE)


def send(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


class Rig:
    """The surroundings of one fault. What it makes is gone after close()."""

    def __init__(self, ranks=2, settings=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="octet-faults-"))
        self.run = self.directory / "run"
        self.ranks, self.settings = ranks, {**SETTINGS, **(settings or {})}
        self.jobs = []
        self.hosts = None
        self.mounts = []
        self.launcher = []    # words before those of the launch script
        self.options = []     # of the launch script
        self.variables = {    # of the launch script; what Open MPI leaves behind when it is killed goes with the rig
            "OMPI_MCA_orte_tmpdir_base": self.directory, "OMPI_MCA_btl_vader_backing_directory": self.directory}
        self.octet = OCTET
        self.injected = None  # when the fault happened
        self.heal = []        # what ends the fault, before the run is resumed
        self.said = ""        # what other programs have said of the fault
        self.reached = 0      # the step before the fault
        self.compares = True  # the weights do not depend on the fault

    def close(self):
        for job in self.jobs:
            job.kill()
        if self.hosts:
            self.hosts.close()
        for mount in self.mounts:
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    # Jobs.

    def launch(self, command, limit=None):
        folder = self.directory / f"job{len(self.jobs)}"
        folder.mkdir()
        mark = f"{os.getpid()}-{self.directory.name}-{len(self.jobs)}"
        self.jobs.append(Marked(command, folder, mark, limit))
        return self.jobs[-1]

    def start(self, resume=False, **settings):
        """Starts the training by the launch script. The fault is later than this."""
        chosen = {**self.settings, **{key.replace("__", "."): value for key, value in settings.items()}}
        variables = [f"{name}={value}" for name, value in {"OCTET": self.octet, **self.variables}.items()]
        words = ["train", RECIPE, "--run", self.run, *with_settings(chosen), *(["--resume"] if resume else [])]
        ranks = [] if self.hosts else ["-n", str(self.ranks)]
        self.reached = max(self.reached, self.step())
        job = self.launch([*self.launcher, "env", *variables, ROOT / "launch/mpirun.sh", *ranks, *self.options, *words])
        self.injected = time.monotonic()
        return job

    def in_mid_run(self):
        """Starts the training, and waits for the step of the fault, which happens now."""
        job = self.start()
        self.until_step(job)
        self.now()
        return job

    def now(self):
        """The fault happens now."""
        self.reached = max(self.reached, self.step())
        self.injected = time.monotonic()

    def train_to(self, step):
        """A training that has ended at this step."""
        code = self.start(train__steps=step).wait(PATIENCE)
        if code != 0:
            raise AssertionError(f"no training to damage: {self.jobs[-1]}")

    def octet_says(self, *arguments):
        """Runs octet, which may fail."""
        return subprocess.run([OCTET, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                              env=environment(), cwd=self.directory, check=False)

    # Moments.

    def until(self, condition, what, job=None):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline or (job and job.process.poll() is not None):
                raise AssertionError(f"never {what}: {job}")
            time.sleep(0.005)

    def step(self):
        """The last one in the metrics."""
        try:
            lines = (self.run / "metrics.jsonl").read_bytes().split(b"\n")
        except OSError:
            return 0
        return max((int(found[1]) for line in lines if (found := re.match(rb'\{"step":(\d+),', line))), default=0)

    def until_step(self, job, step=AT):
        self.until(lambda: self.step() >= step, f"at step {step}", job)

    def until_said(self, job, words):
        self.until(lambda: words in job.err, f"said '{words}'", job)

    def until_ranks(self, job):
        self.until(lambda: len(job.ranks()) == self.ranks, "with all ranks", job)

    # Files.

    def checkpoints(self):
        return sorted((self.run / "checkpoints").glob("step-*.safetensors"))

    def wrap(self, script):
        """Every rank runs this shell script, which may change "$@", before octet."""
        program = self.directory / "wrapped"
        program.write_text(f'#!/bin/sh\noctet={self.octet}\nrank=$OMPI_COMM_WORLD_RANK\n{script}\nexec "$octet" "$@"\n')
        program.chmod(0o755)
        self.octet = program
        self.heal.append(lambda: setattr(self, "octet", OCTET))

    def preload(self, **variables):
        """Rank 0 runs with preload.c; the variables tell what it does."""
        compiler = shutil.which("gcc")
        if compiler is None:
            raise Skip("no gcc")
        library = self.directory / "preload.so"
        source = pathlib.Path(__file__).with_name("preload.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        exports = " ".join(f"{name}={value}" for name, value in variables.items())
        self.wrap(f'if [ "$rank" = 0 ]; then export {exports} LD_PRELOAD={library}; fi')

    def small_disk(self, megabytes):
        """The run directory will be on a disk of its own. Returns its folder."""
        if not os.environ.get("FAULT_MOUNTS"):
            raise Skip("small disks need root and mount namespaces")
        disk = self.directory / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", disk], check=True)
        self.mounts.append(disk)
        self.run = disk / "run"
        return disk

    def remount(self, options):
        subprocess.run(["mount", "-o", f"remount,{options}", self.mounts[0]], check=True)

    # Hosts.

    def make_hosts(self, *names):
        """Hosts with one rank on each."""
        try:
            self.hosts = Hosts(self.directory, names)
        except NoHosts as reason:
            raise Skip(str(reason)) from reason
        self.options = ["--hostfile", self.hosts.file]
        self.variables |= self.hosts.variables()

    def two_hosts(self):
        """The job is started on the first."""
        self.make_hosts("first", "second")
        self.launcher = self.hosts.up["first"].enter

    def set_link(self, state):
        """The cable of the second host: "up" or "down"."""
        self.hosts.up["second"].set_link(state)

    def on_second_host(self, job):
        """The processes of the job there."""
        there = set(self.hosts.up["second"].processes())
        return [process for process in job.processes() if process in there]
