#!/usr/bin/env python3
"""Ranks that hang: the job ends in bounded time, and names the rank that held the others up."""

import os
import signal
import time

from harness import SECONDS, Case, main, on_ranks


class Hanging(Case):
    def test_hanging_rank_is_noticed(self):
        job = self.start("hanging", ranks=2, train__steps=0, train__epochs=1000, comm__timeout_seconds=3)
        self.wait_for_step(job, "hanging", 3)
        os.kill(job.ranks()[1], signal.SIGSTOP)
        self.expect(job, 83, seconds=25)
        self.assertRegex(job.err, r"watchdog: no progress: rank 1 on \S+ \(pid \d+\)")
        last = r"watchdog: rank 1 on \S+ \(pid \d+\) has given no sign of life for \d+ s; it was last seen in '[a-z ]+' of step \d+.*ending the job"
        self.assertRegex(job.err, last)
        self.assertEqual(job.err.count("ending the job"), 1, job)

    def test_rank_that_hangs_before_it_joins_is_named(self):
        """One hangs before octet begins, in the shell that would start it; the other just after it has begun."""
        words = self.words("early", train__steps=0, train__epochs=1000, comm__timeout_seconds=3)
        unseen, seen = r"nothing is seen of rank\(s\) 1", r"rank 1 on \S+ \(pid \d+\)"
        for stops, said in ("kill -STOP $$", unseen), ("", f"({unseen}|{seen})"):
            hangs = f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then {stops or ":"}; fi; exec "$@"'
            job = self.launch([*on_ranks(2), "sh", "-c", hangs, "sh", *words])
            if not stops:
                self.stop_when_it_beats(job)
            self.expect(job, 83)
            self.assertRegex(job.err, rf"watchdog: .*{said}.*ending the job")

    def stop_when_it_beats(self, job):
        """Stops rank 1 as soon as octet is its program, long before the ranks have joined."""
        deadline = time.monotonic() + SECONDS
        while 1 not in job.ranks():
            self.assertLess(time.monotonic(), deadline, job)
        time.sleep(0.05)
        os.kill(job.ranks()[1], signal.SIGSTOP)


if __name__ == "__main__":
    main()
