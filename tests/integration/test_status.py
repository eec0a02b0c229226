#!/usr/bin/env python3
"""What another shell can see of a run: `octet status`, times and hosts in its records, figures for Prometheus."""

import json
import os
import re
import signal
import socket
import time

from harness import OCTET, SECONDS, Case, main


class Status(Case):
    ENDLESS = {"train__steps": 0, "train__epochs": 1000, "checkpoint__every_steps": 5}

    def wait_for_status(self, run, condition):
        """Polls until the status fulfils the condition, and returns it."""
        deadline = time.monotonic() + SECONDS
        while True:
            job = self.launch([OCTET, "status", "--json", self.run_path(run)])
            self.assertIn(job.wait(), (0, 1), job)
            status = json.loads(job.out)
            if condition(status):
                return status
            self.assertLess(time.monotonic(), deadline, status)
            time.sleep(0.1)

    def test_running_stopped_and_ended(self):
        job = self.start("run", ranks=2, **self.ENDLESS)
        self.wait_for_words(job, "checkpoint at step 5")
        status = self.wait_for_status("run", lambda s: len(s["ranks"]) == 2 and s["step"] > 6 and s["images_per_second"] > 0)
        self.assertEqual(status["state"], "running")
        self.assertEqual(status["steps"], 8000)
        self.assertGreater(status["seconds_left"], 0)
        self.assertGreaterEqual(status["checkpoint"]["step"], 5)
        self.assertEqual({rank["host"] for rank in status["ranks"]}, {socket.gethostname()})
        self.assertEqual({rank["rank"]: rank["pid"] for rank in status["ranks"]}, job.ranks())
        text = self.octet("status", self.run_path("run")).out
        self.assertRegex(text, r"running, step \d+ of 8000 \(\d+\.\d %\), \d+ img/s, ETA [\d:]+\nlast checkpoint: step \d+, .* ago\n")
        job.kill()
        ended = self.wait_for_status("run", lambda s: s["state"] not in ("running", "hangs"))
        self.assertEqual(ended["state"], "ended without a result")
        self.assertIn("--resume", self.octet("status", self.run_path("run"), code=1).out)

    def test_stopped_by_a_signal(self):
        job = self.start("run", **self.ENDLESS)
        self.wait_for_step(job, "run", 2)
        job.process.send_signal(signal.SIGINT)
        self.expect(job, 85)
        self.assertIn(": stopped by a signal, step ", self.octet("status", self.run_path("run"), code=1).out)

    def test_hanging_rank_is_named(self):
        job = self.start("hangs", ranks=2, **self.ENDLESS)
        self.wait_for_step(job, "hangs", 6)
        os.kill(job.ranks()[1], signal.SIGSTOP)
        status = self.wait_for_status("hangs", lambda s: s["state"] == "hangs")
        self.assertEqual(status["hang"]["rank"], 1)
        self.assertRegex(status["hang"]["reason"], "rank 1 on .* has (given no sign of life|been in )")
        os.kill(job.ranks()[1], signal.SIGCONT)
        self.wait_for_status("hangs", lambda s: s["state"] == "running")
        job.kill()

    def test_finished(self):
        self.train("done")
        self.wait_for_status("done", lambda s: s["state"] == "finished")
        self.assertIn("finished, step 16 of 16 (100.0 %)", self.octet("status", self.run_path("done")).out)
        self.octet("status", self.directory / "nowhere", code=2)

    def test_records_have_time_and_host(self):
        file = self.directory / "octet.prom"
        before = time.time()
        job = self.train("run", train__prometheus=file)
        for record in self.metrics("run"):
            self.assertTrue(before - 1 <= record["time"] <= time.time() + 1, record)
            self.assertEqual(record["host"], socket.gethostname())
        self.assertRegex(job.err, rf"octet: \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d {re.escape(socket.gethostname())}: checkpoint at step 16, in")
        text = file.read_text()
        self.assertRegex(text, r'octet_step\{run="[^"]+"\} 16\n')
        self.assertRegex(text, r'octet_rank_own_seconds\{run="[^"]+",rank="0",host="[^"]+"\} 0\.')


if __name__ == "__main__":
    main()
