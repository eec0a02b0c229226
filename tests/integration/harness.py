"""Runs octet as users do: real processes, alone or under mpirun; every wait is bounded, and no process is left behind.

environment: OCTET  the program (default: build/release/octet of this checkout), MPIRUN  the launcher (default: mpirun)
             SEED   of the random moments at which jobs are killed (default: drawn, and printed)
A script prints one line per case, in GoogleTest's form, which tests/run.sh counts.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
OCTET = os.environ.get("OCTET", str(ROOT / "build/release/octet"))
MPIRUN = os.environ.get("MPIRUN", "mpirun")
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
RECIPE = str(ROOT / "configs/shapes_resnet20_unified_int8.yaml")
SECONDS = 150  # a job that takes longer hangs; on quiet cores each takes a few

# 8 steps an epoch, 16 steps; every step's metrics.
SMALL = {"data.samples": 256, "data.batch": 32, "data.workers": 1, "train.epochs": 8, "train.steps": 16,
         "train.log_every_steps": 1, "train.eval_every_epochs": 100, "backend.threads": 1}

# nohup and background jobs of shells start programs that ignore these, and so would all that is started here.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def environment():
    """The caller's environment, without the variables of an outer launcher."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_COMM", "PMI_", "PMIX_"))}
    return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "self,vader,tcp", "NO_COLOR": "1"}


def with_settings(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def on_ranks(ranks, *options):
    """The words of the launcher, before those of octet; none for one rank."""
    return [MPIRUN, "--bind-to", "none", "--oversubscribe", *options, "-n", str(ranks)] if ranks > 1 else []


def descendants(ancestor):
    """The process ids of the children of a process, and of their children."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, open_ends = [], [ancestor]
    while open_ends:
        started = children.get(open_ends.pop(), [])
        found += started
        open_ends += started
    return found


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Job:
    """A running command. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, command, directory, limit=None):
        self.command = [str(word) for word in command]
        self.out_file, self.err_file = directory / "stdout", directory / "stderr"
        with open(self.out_file, "wb") as out, open(self.err_file, "wb") as err:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            cwd=directory, env=environment(), start_new_session=True, preexec_fn=limit)
        self.seen = {self.process.pid}

    @property
    def out(self):
        return self.out_file.read_bytes().decode()

    @property
    def err(self):
        return self.err_file.read_bytes().decode()

    def __str__(self):
        return f"{' '.join(self.command)}\nexit code {self.process.poll()}\n{self.out[-3000:]}\n{self.err[-3000:]}"

    def processes(self):
        self.seen |= set(descendants(self.process.pid))
        return self.seen

    def ranks(self):
        """Rank -> process id."""
        found = {}
        for process in self.processes():
            try:
                variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
                program = os.readlink(f"/proc/{process}/exe")
            except OSError:
                continue
            rank = next((v.partition("=")[2] for v in variables if v.startswith("OMPI_COMM_WORLD_RANK=")), None)
            if rank is not None and program == os.path.realpath(OCTET):
                found[int(rank)] = process
        return found

    def kill(self):
        """Sends SIGKILL to all processes of the job at once, as when a host loses power."""
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(SECONDS)

    def wait(self, seconds=SECONDS):
        """The exit code. AssertionError: the job does not end in time, or a process of it is left."""
        self.processes()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {seconds} s: {self}") from None
        deadline = time.monotonic() + 10  # what mpirun kills may end a little after it
        while any(map(alive, self.seen)):
            if time.monotonic() > deadline:
                left = [process for process in self.seen if alive(process)]
                self.kill()
                raise AssertionError(f"processes {left} went on after the end: {self}")
            time.sleep(0.02)
        return code


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="octet-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.jobs = []
        self.addCleanup(self.stop)

    def stop(self):
        for job in self.jobs:
            if job.process.poll() is None:
                job.kill()

    def launch(self, command, limit=None):
        folder = self.directory / f"job{len(self.jobs)}"
        folder.mkdir()
        self.jobs.append(Job(command, folder, limit))
        return self.jobs[-1]

    def octet(self, *arguments, ranks=1, code=0):
        """Runs octet to its end, which must be this exit code ("failure": any but 0)."""
        job = self.launch([*on_ranks(ranks), OCTET, *arguments])
        self.expect(job, code)
        return job

    def start(self, run, ranks=1, resume=False, limit=None, **settings):
        """Starts a training in this run directory; settings as train__lr=0.1."""
        return self.launch([*on_ranks(ranks), *self.words(run, **settings), *(["--resume"] if resume else [])], limit)

    def words(self, run, **settings):
        """The command of a training on one rank."""
        chosen = {**SMALL, **{key.replace("__", "."): value for key, value in settings.items()}}
        return [OCTET, "train", RECIPE, "--run", self.run_path(run), *with_settings(chosen)]

    def train(self, run, code=0, **options):
        """Trains to the end, which must be this exit code, and returns the job."""
        job = self.start(run, **options)
        self.expect(job, code)
        return job

    def weights_of(self, run, **options):
        """Trains and returns the digest of the final weights."""
        self.train(run, **options)
        return self.result(run)["weights_sha256"]

    def expect(self, job, code, seconds=SECONDS):
        ended = job.wait(seconds)
        self.assertTrue(ended != 0 if code == "failure" else ended == code, f"exit code {code} was expected: {job}")

    def run_path(self, run):
        return self.directory / "runs" / run

    def result(self, run):
        return json.loads((self.run_path(run) / "result.json").read_text())

    def metrics(self, run):
        """The complete lines. A job that trains may be writing another."""
        try:
            text = (self.run_path(run) / "metrics.jsonl").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def checkpoints(self, run):
        """Steps of the checkpoints, oldest first."""
        names = [path.name for path in (self.run_path(run) / "checkpoints").glob("step-*.safetensors")]
        return sorted(int(re.search(r"\d+", name)[0]) for name in names)

    def checkpoint_path(self, run, step):
        return self.run_path(run) / "checkpoints" / f"step-{step:08}.safetensors"

    def wait_for_step(self, job, run, step):
        deadline = time.monotonic() + SECONDS
        while not any(record["step"] >= step for record in self.metrics(run)):
            self.assertIsNone(job.process.poll(), f"ended before step {step}: {job}")
            self.assertLess(time.monotonic(), deadline, f"did not come to step {step}: {job}")
            time.sleep(0.005)

    def wait_for_words(self, job, words, times=1):
        """Until a job has said this so often on standard error."""
        deadline = time.monotonic() + SECONDS
        while job.err.count(words) < times:
            self.assertIsNone(job.process.poll(), f"ended before it said '{words}': {job}")
            self.assertLess(time.monotonic(), deadline, f"did not say '{words}': {job}")
            time.sleep(0.01)


def write_png(path, side, shade):
    """A gray image."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head, rows = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0), (b"\0" + bytes([shade]) * 3 * side) * side
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class OneLineEach(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def say(self, word, test):
        if not isinstance(test, unittest.TestCase):
            return  # the set-up of a class; the summary shows its error
        name = f"{type(test).__name__}.{test._testMethodName}"
        print(f"[{word}] {name} ({1e3 * (time.monotonic() - self.started):.0f} ms)", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("       OK ", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("  FAILED  ", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.say("  FAILED  ", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.say("  FAILED  ", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("  SKIPPED ", test)


def main():
    if not os.access(OCTET, os.X_OK):
        sys.exit(f"{sys.argv[0]}: {OCTET} does not exist; build it, or name it: OCTET=...")
    print(f"SEED={SEED}", flush=True)
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=0, resultclass=OneLineEach)
    unittest.main(testRunner=runner, verbosity=0)
