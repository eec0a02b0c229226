#!/usr/bin/env python3
"""The launch scripts with stand-ins for srun, scancel, scontrol and mpirun: what they do with signals and exit codes."""

import signal
import time

from harness import ROOT, SECONDS, Case, main


class Scripts(Case):
    def setUp(self):
        super().setUp()
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        self.said = self.directory / "said"

    def stand_in(self, name, body):
        """A program of this name that first notes its arguments."""
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.said}\n{body}\n')
        path.chmod(0o755)

    def script(self, script, *arguments, **variables):
        words = [f"{name}={value}" for name, value in variables.items()]
        return self.launch(["bash", "-c", 'exec env PATH="$0:$PATH" "$@"', self.bin, *words, ROOT / "launch" / script, *arguments])

    def wait_until_said(self, job, text):
        deadline = time.monotonic() + SECONDS
        while not self.said.exists() or text not in self.said.read_text():
            self.assertIsNone(job.process.poll(), job)
            self.assertLess(time.monotonic(), deadline, job)
            time.sleep(0.01)


class Slurm(Scripts):
    def ended(self, code, first_signal=None, **variables):
        """Whether the job was requeued, after its step ended with this code; the step waits for the signal, if there is one."""
        self.said.unlink(missing_ok=True)
        go = self.directory / "go"
        go.unlink(missing_ok=True)
        waits = "" if first_signal is None else f"while [ ! -e {go} ]; do sleep 0.01; done"
        self.stand_in("srun", f"{waits}\nexit {code}")
        self.stand_in("scancel", f"touch {go}")
        self.stand_in("scontrol", "kill -KILL $PPID")  # as a requeue ends the batch shell
        job = self.script("slurm.sbatch", "recipe.yaml", SLURM_JOB_ID=7, SLURM_SUBMIT_DIR=self.directory,
                          SLURM_JOB_NODELIST="n1", **variables)
        if first_signal is not None:
            self.wait_until_said(job, "srun")
            job.process.send_signal(first_signal)
        ended = job.wait()
        requeued = "scontrol requeue 7" in self.said.read_text()
        self.assertEqual(ended, -signal.SIGKILL if requeued else code, job)
        return requeued

    def test_requeues_what_was_stopped_in_time(self):
        for code in 85, 138, 143:  # the last two: the signal ended a rank that had just been started
            self.assertTrue(self.ended(code, signal.SIGUSR1), code)
            self.assertFalse(self.ended(code, signal.SIGTERM), code)  # scancel
        self.assertFalse(self.ended(85, signal.SIGUSR1, SLURM_RESTART_COUNT=3, MAX_RESTARTS=3))
        self.assertFalse(self.ended(0, signal.SIGUSR1))
        self.assertFalse(self.ended(2, signal.SIGUSR1))
        self.assertFalse(self.ended(0))


if __name__ == "__main__":
    main()
