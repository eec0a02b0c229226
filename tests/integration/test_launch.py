#!/usr/bin/env python3
"""The launch scripts with stand-ins for srun, scontrol and mpirun: what they do with signals and exit codes."""

import re
import signal
import subprocess
import time

from harness import OCTET, ROOT, SECONDS, Case, main


def may_be_retried():
    """The codes after which octet says that a resume can help."""
    text = subprocess.run([OCTET, "train", "--help"], capture_output=True, text=True, check=True).stdout
    return {int(code) for code in re.findall(r"^ +(\d+) .*\(retry\)$", text, re.MULTILINE)}


class ExitCodes(Case):
    def test_the_documentation_has_the_program_s_table(self):
        page = (ROOT / "docs/operations.md").read_text()
        rows = re.findall(r"^\| (\d+) \| (.+?) \| (yes|no|) \|$", page, re.MULTILINE)
        text = self.octet("train", "--help").out
        printed = re.findall(r"^ +(\d+) (.+?)( \(retry\))?$", text, re.MULTILINE)
        self.assertGreater(len(rows), 5)
        self.assertEqual([(code, meaning, retry == "yes") for code, meaning, retry in rows],
                         [(code, meaning, retry != "") for code, meaning, retry in printed])


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


RUNNING, CANCELLED = "JobState=RUNNING Reason=None Restarts={} PreemptTime=None", "JobState=COMPLETING Reason=None Restarts={}"
TIMED_OUT = "JobState=COMPLETING Reason=TimeLimit Restarts={}"
PREEMPTED = "JobState=COMPLETING Reason=None Restarts={} PreemptTime=2026-11-26T10:00:00"


class Slurm(Scripts):
    def ended(self, code, first_signal=None, advances=False, shown=RUNNING, **variables):
        """Whether the job was requeued, after its step ended with this code; the step waits for USR1, if there is a signal."""
        self.said.unlink(missing_ok=True)
        restart = variables.get("SLURM_RESTART_COUNT", 0)
        latest = self.directory / "runs/7/checkpoints/latest"
        latest.parent.mkdir(parents=True, exist_ok=True)
        save = f"echo $RANDOM$RANDOM > {latest}" if advances else ""
        waits = "" if first_signal is None else f"echo waits >> {self.said}; while :; do /bin/sleep 0.01; done"
        self.stand_in("srun", f"[ $1 = --mpi=pmix ] || exit 0\n{save}\ntrap 'exit {code}' USR1\n{waits}\nexit {code}")
        self.stand_in("sleep", "exec /bin/sleep 0.01")
        # A requeue ends the batch shell.
        self.stand_in("scontrol", f'if [ $1 = show ]; then echo "{shown.format(restart)} BatchFlag=1"; else kill -KILL $PPID; fi')
        job = self.script("slurm.sbatch", "recipe.yaml", SLURM_JOB_ID=7, SLURM_SUBMIT_DIR=self.directory,
                          SLURM_JOB_NODELIST="n1", **variables)
        if first_signal is not None:
            self.wait_until_said(job, "waits")
            job.process.send_signal(first_signal)
        ended = job.wait()
        requeued = "scontrol requeue" in self.said.read_text()
        self.assertEqual(ended, -signal.SIGKILL if requeued else code, job)
        return requeued

    def test_cores_of_an_outer_step_are_not_those_of_the_job(self):
        bound = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_CPU_BIND_LIST": "0x1"}
        for type, expected in {"mask_cpu:": "", "": "quiet,mask_cpu:0x1"}.items():
            self.stand_in("srun", f'echo "bind [$SLURM_CPU_BIND]" >> {self.said}')
            job = self.script("slurm.sbatch", "recipe.yaml", SLURM_JOB_ID=7, SLURM_SUBMIT_DIR=self.directory,
                              SLURM_JOB_NODELIST="n1", SLURM_CPU_BIND_TYPE=type, **bound)
            self.expect(job, 0)
            self.assertIn(f"bind [{expected}]", self.said.read_text())

    def test_requeues_what_was_stopped_and_not_cancelled(self):
        for number in None, signal.SIGUSR1, signal.SIGTERM:
            for shown in RUNNING, TIMED_OUT, PREEMPTED:
                self.assertTrue(self.ended(85, number, shown=shown), (number, shown))
            self.assertFalse(self.ended(85, number, shown=CANCELLED), number)
            self.assertFalse(self.ended(0, number), number)
            self.assertFalse(self.ended(2, number), number)
        self.assertFalse(self.ended(85, SLURM_RESTART_COUNT=3, MAX_RESTARTS=3))

    def test_requeues_what_was_stopped_while_it_was_being_started(self):
        for code in 100, 138, 143:
            self.assertTrue(self.ended(code, signal.SIGUSR1), code)
            self.assertTrue(self.ended(code, signal.SIGTERM, shown=TIMED_OUT), code)
            self.assertTrue(self.ended(code, shown=PREEMPTED), code)
            self.assertFalse(self.ended(code, signal.SIGTERM, shown=CANCELLED), code)
            self.assertFalse(self.ended(code), code)  # srun ends the other ranks of one that has failed

    def test_requeues_no_job_that_slurm_has_requeued(self):
        for shown in RUNNING, CANCELLED, PREEMPTED:
            self.assertFalse(self.ended(85, shown=shown.format(2), SLURM_RESTART_COUNT=1), shown)

    def test_requeues_failures_that_may_pass_if_the_run_has_advanced(self):
        for code in may_be_retried() | {137}:
            if code != 85:
                self.assertTrue(self.ended(code, advances=True), code)
                self.assertFalse(self.ended(code), code)
                self.assertFalse(self.ended(code, signal.SIGTERM, advances=True, shown=CANCELLED), code)
        for code in 1, 2, 3, 4, 78:
            self.assertFalse(self.ended(code, advances=True), code)

    def test_requeues_no_element_whose_run_is_another_s(self):
        element = {"advances": True, "SLURM_ARRAY_JOB_ID": 7, "SLURM_ARRAY_TASK_ID": 2}
        self.assertTrue(self.ended(75, **element))
        self.assertFalse(self.ended(75, RUN=self.directory / "runs/7", **element))
        self.assertIn("fix: unset RUN\n", self.jobs[-1].err)
        self.assertTrue(self.ended(74, RUN=self.directory / "runs/7", **element))

    def test_names_the_network_and_the_hosts(self):
        self.stand_in("srun", f"env >> {self.said}")
        self.stand_in("scontrol", "printf 'n1\\nn2\\n'")
        self.script("slurm.sbatch", "recipe.yaml", SLURM_JOB_ID=7, SLURM_SUBMIT_DIR=self.directory, SLURM_JOB_NODELIST="n[1-2]",
                    INTERFACE="eth0").wait()
        said = self.said.read_text()
        for line in "OMPI_MCA_btl_tcp_if_include=eth0", "NCCL_SOCKET_IFNAME==eth0", "OCTET_HOSTS=n1 n2":
            self.assertIn(f"\n{line}\n", said)

    def test_names_an_element_of_an_array_by_its_index(self):
        self.assertTrue(self.ended(85, SLURM_ARRAY_JOB_ID=7, SLURM_ARRAY_TASK_ID=2))
        said = self.said.read_text()
        self.assertIn("scontrol show job 7_2\n", said)
        self.assertIn("scontrol requeue 7_2\n", said)

    def test_each_restart_trains_in_a_step_of_another_number(self):
        self.ended(0, SLURM_RESTART_COUNT=2)
        steps = re.findall(r"^srun --mpi=(\w+)", self.said.read_text(), re.MULTILINE)
        self.assertEqual(steps, ["none", "none", "pmix"])


class Starts(Scripts):
    """Of mpirun, by the launch script."""

    def setUp(self):
        super().setUp()
        self.stand_in("octet", "")
        self.latest = self.directory / "run/checkpoints/latest"
        self.latest.parent.mkdir(parents=True)

    def start(self, *options, **variables):
        return self.script("mpirun.sh", *options, "train", "recipe.yaml", "--run", self.directory / "run",
                           OCTET=self.bin / "octet", **variables)

    def run_to_end(self, job):
        job.wait()
        return self.said.read_text().splitlines() if self.said.exists() else []


class Mpirun(Starts):
    def test_ends_mpirun_after_the_watchdog(self):
        """mpirun and what it has started ignore every signal, as where a daemon on another host hangs."""
        body = "trap '' TERM INT\n(trap '' TERM; sleep 300) &\necho 'watchdog: rank 1 hangs; ending the job' >&2\n"
        self.stand_in("mpirun", body + "while :; do sleep 1; done")
        job = self.start(GRACE=1)
        self.expect(job, 83)
        self.assertIn("watchdog: rank 1 hangs", job.err)
        self.assertIn("mpirun has not ended 1 s after octet's watchdog", job.err)

    def test_exit_code_after_the_watchdog(self):
        self.stand_in("mpirun", "echo 'watchdog: rank 1 hangs; ending the job' >&2\nexit 1")
        job = self.start()
        self.expect(job, 83)
        self.assertNotIn("has not ended", job.err)

    def test_words_in_other_lines_end_nothing(self):
        """Messages hold names of files, which may hold anything but a line break."""
        for words, code in (("cannot read watchdog: a; ending the job", 1), ("  watchdog: a; ending the job", 1),
                            ("cannot read h1: stopped by a signal at step 7;", 1)):
            self.stand_in("mpirun", f"echo 'octet: 2026-01-02 03:04:05 h1: warning: {words}' >&2\necho '{words}' >&2\nexit 1")
            self.expect(self.start(), code)

    def test_names_of_hosts_are_no_options(self):
        self.stand_in("mpirun", "")
        hosts = self.directory / "hosts"
        for line in "-oProxyCommand=true slots=2", "a;b slots=2", "$(a) slots=1", "@a", "a@-b":
            hosts.write_text(f"# hosts\nnode1 slots=2\n{line}\n")
            job = self.start("--hostfile", hosts)
            self.expect(job, 2)
            self.assertIn("does not begin with the name of a host", job.err)
        hosts.write_text("# hosts\n\nnode-1.a slots=2\n  me@10.0.0.2 slots = 2 # mine\nfe80::1\n")
        self.expect(self.start("--hostfile", hosts), 0)

    def test_a_host_file_of_another_system(self):
        """Open MPI does not read lines that end with CR LF."""
        self.stand_in("mpirun", f'cat "$2" >> {self.said}')
        hosts = self.directory / "hosts"
        hosts.write_bytes(b"# hosts\r\n\r\nnode1\r\n\tnode2 slots=2 \r\n")
        self.expect(self.start("--hostfile", hosts), 0)
        self.assertTrue(self.said.read_bytes().endswith(b"\nnode1\nnode2 slots=2\n"), self.said.read_bytes())

    def test_a_host_file_without_hosts(self):
        hosts = self.directory / "hosts"
        for text in "", "\n", "# node1\r\n \t\r\n":
            hosts.write_text(text)
            job = self.start("--hostfile", hosts)
            self.expect(job, 2)
            self.assertIn(f"mpirun.sh: {hosts} names no host;", job.err)

    def test_ranks_of_one_host_need_no_network(self):
        self.stand_in("mpirun", "")
        self.expect(self.start(), 0)
        self.assertIn("--mca pml ob1 --mca btl self,vader --mca oob_tcp_if_include lo", self.said.read_text())

    def test_waits_for_the_end_after_a_second_signal(self):
        self.stand_in("mpirun", "trap '' USR1\ntrap 'sleep 1; exit 1' TERM\necho ready >&2\nwhile :; do sleep 0.1; done")
        job = self.start()
        self.wait_for_words(job, "ready")
        job.process.terminate()
        self.wait_for_words(job, "the ranks write a checkpoint")
        job.process.terminate()
        self.expect(job, 1)

    def test_a_second_signal_after_the_checkpoint(self):
        """Open MPI crashes if SIGTERM comes while it ends, after its ranks."""
        says = "echo 'octet: 2026-01-02 03:04:05 h1: stopped by a signal at step 7; continue' >&2"
        self.stand_in("mpirun", f"asked=''\ntrap 'asked=1' USR1\ntrap 'exit 139' TERM\necho ready >&2\n"
                                f"until [ $asked ]; do sleep 0.05; done\n{says}\nfor i in {{1..10}}; do sleep 0.1; done\nexit 3")
        job = self.start()
        self.wait_for_words(job, "ready")
        job.process.terminate()
        self.wait_for_words(job, "stopped by a signal")
        time.sleep(0.1)  # for the script to read it
        job.process.terminate()
        self.expect(job, 3)

    def test_a_crash_after_the_checkpoint(self):
        for code, expected in (139, 85), (2, 2):
            self.stand_in("mpirun", f"echo 'octet: 2026-01-02 03:04:05 h1: stopped by a signal at step 7;' >&2\nexit {code}")
            self.expect(self.start(), expected)

    def test_closed_streams(self):
        self.stand_in("mpirun", "echo out\necho err >&2")
        for closed in ">&- 2>&-", "<&- >&- 2>&-", "<&- 2>&-":
            job = self.launch(["bash", "-c", f'exec env PATH="$0:$PATH" OCTET="$0/octet" "$@" {closed}', self.bin,
                               ROOT / "launch/mpirun.sh", "train", "recipe.yaml"])
            self.expect(job, 0, seconds=20)

    def starts(self, retries, codes, advances=True):
        """Starts of mpirun, which ends with one code after the other."""
        self.said.unlink(missing_ok=True)
        self.latest.write_text("step-0\n")
        save = f"echo step-$n > {self.latest}" if advances else ""
        self.stand_in("mpirun", f"n=$(grep -c ^mpirun {self.said})\n{save}\nset -- {' '.join(map(str, codes))}\nexit ${{!n}}")
        job = self.start("--retries", str(retries))
        starts = [line for line in self.run_to_end(job) if line.startswith("mpirun")]
        self.assertEqual(job.process.returncode, codes[len(starts) - 1], job)
        self.assertEqual([" --resume" in line for line in starts], [i > 0 for i in range(len(starts))])
        return len(starts)

    def test_retries(self):
        self.assertEqual(self.starts(3, [83, 84, 0]), 3)
        self.assertEqual(self.starts(1, [83, 84, 0]), 2)
        self.assertEqual(self.starts(3, [83, 3, 0]), 2)
        self.assertEqual(self.starts(4, [137, 205, 255, 74, 75]), 5)
        self.assertEqual(self.starts(3, [83, 0], advances=False), 1)
        for code in 1, 2, 3, 4, 78, 85:
            self.assertEqual(self.starts(3, [code, 0]), 1)

    def test_ends_if_no_rank_starts(self):
        """As where a daemon on another host cannot connect back: mpirun waits and says nothing."""
        self.stand_in("mpirun", "trap '' TERM\nwhile :; do sleep 1; done")
        hosts = self.directory / "hosts"
        hosts.write_text("a slots=1\nb slots=1 # a comment\n")
        job = self.start("--hostfile", hosts, START=6)
        self.expect(job, 84)
        self.assertIn("no rank has started for 1 s; mpirun waits for its daemons on a b\n", job.err)
        self.assertRegex(job.err, r"no rank has started for 6 s .*\n  fix: .*INTERFACE=eth0")

    def test_any_word_of_a_rank_says_that_it_has_started(self):
        for word in "printf x", "echo 'octet: h1: two ranks' >&2", "echo 'watchdog: no progress' >&2":
            self.stand_in("mpirun", f"{word}\nsleep 2.5")
            self.expect(self.start(START=2), 0)

    def test_waits_for_hosts(self):
        hosts, up = self.directory / "hosts", self.directory / "up"
        hosts.write_text("\ta slots=1\nb slots=1\n")
        self.stand_in("agent", f"[ $1 = a ] || [ -e {up} ]")
        self.stand_in("mpirun", "")
        job = self.start("--hostfile", hosts, "--wait", "60", OMPI_MCA_plm_rsh_agent=self.bin / "agent")
        self.wait_for_words(job, "waiting for b\n")
        self.assertNotIn("mpirun", self.said.read_text())
        up.touch()
        self.expect(job, 0)
        self.assertIn("mpirun", self.said.read_text())
        up.unlink()
        job = self.start("--hostfile", hosts, "--wait", "1", OMPI_MCA_plm_rsh_agent=self.bin / "agent")
        self.expect(job, 205)
        self.assertRegex(job.err, r"no answer within 1 s \(--wait\) from b;")

    def test_usage_is_for_people(self):
        job = self.script("mpirun.sh", "--help")
        self.expect(job, 2)
        self.assertRegex(job.err, r"^Runs octet on several ranks[^~]*A second one ends the run at once\.\n$")

    def test_retries_need_the_run(self):
        job = self.script("mpirun.sh", "--retries", "1", "train", "recipe.yaml", OCTET=self.bin / "octet")
        self.expect(job, 2)
        self.assertIn("add --run DIR", job.err)
    def test_a_signal_that_reaches_mpirun_alone(self):
        """Open MPI then ends with 1, also if the ranks have written their checkpoint."""
        self.stand_in("mpirun", "echo 'octet: 2026-01-02 03:04:05 h1: stopped by a signal at step 7; continue' >&2\nexit 1")
        self.expect(self.start(), 85)

    def test_mpirun_is_asked_to_end_when_the_script_is_killed(self):
        self.stand_in("mpirun", f"trap 'echo asked >> {self.said}; exit' USR1\nwhile :; do sleep 0.05; done")
        job = self.start()
        self.wait_until_said(job, "mpirun")
        time.sleep(0.2)  # for its trap
        job.process.kill()
        job.wait()
        deadline = time.monotonic() + SECONDS
        while "asked" not in self.said.read_text():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


class Elastic(Starts):
    """Hosts answer while there is a file of their name in the folder `up`."""

    def setUp(self):
        super().setUp()
        self.up = self.directory / "up"
        self.up.mkdir()
        self.hosts = self.directory / "hosts"
        self.hosts.write_text("# name and slots\na slots=2\nb slots=2 # a comment\n\nc slots=2\n")
        self.stand_in("octet", 'echo $(( ${!#} >= 4 ? 4 : ${!#} ))')  # up to 4 ranks can share the images
        self.stand_in("agent", f"exec [ -e {self.up}/$1 ]")

    def bring_up(self, *names):
        for name in names:
            (self.up / name).touch()

    def elastic(self, body, **variables):
        """mpirun first saves a checkpoint. The starts of mpirun, as ranks and hosts, and the job."""
        self.stand_in("mpirun", f"n=$(grep -c ^mpirun {self.said})\necho step-$n > {self.latest}\n"
                                f"echo \"hosts $(cut -d ' ' -f 1 $2 | paste -sd ' ')\" >> {self.said}\n{body}")
        job = self.start("--hostfile", self.hosts, "--elastic", OMPI_MCA_plm_rsh_agent=self.bin / "agent", **variables)
        lines = self.run_to_end(job)
        starts = [re.search(r" -n (\d+) ", line)[1] for line in lines if line.startswith("mpirun")]
        return list(zip(starts, [line[6:] for line in lines if line.startswith("hosts ")])), job

    def test_takes_the_hosts_that_answer(self):
        self.bring_up("a", "c")
        starts, job = self.elastic("")
        self.assertEqual(starts, [("4", "a c")], job)
        self.assertIn("2 of 3 hosts answer; 4 ranks on a c\n", job.err)

    def test_takes_slots_and_not_their_limit(self):
        self.hosts.write_text("a max-slots=4 slots=1\n\tb slots = 1 max_slots = 4\n")
        self.bring_up("a", "b")
        starts, job = self.elastic("")
        self.assertEqual(starts, [("2", "a b")], job)
        self.hosts.write_text("a max-slots=4\n")
        self.expect(self.elastic("")[1], 2)

    def test_goes_on_without_a_host_that_is_lost(self):
        """Whatever Open MPI says of it, and without a newer checkpoint."""
        self.bring_up("a", "b")
        starts, job = self.elastic(f"[ -e {self.up}/b ] || exit 0\nrm {self.up}/b\necho step-1 > {self.latest}\nexit 1")
        self.assertEqual(starts, [("4", "a b"), ("2", "a")], job)
        self.expect(job, 0)

    def test_does_not_go_on_after_a_mistake(self):
        self.bring_up("a", "b")
        for code in 2, 3, 4, 78, 85:
            self.said.unlink(missing_ok=True)
            self.bring_up("b")
            starts, job = self.elastic(f"rm {self.up}/b\nexit {code}")
            self.assertEqual(len(starts), 1)
            self.expect(job, code)

    def test_takes_a_host_that_comes_back(self):
        self.bring_up("a")
        body = f"[ -e {self.up}/b ] && exit 0\ntrap 'exit 85' USR1\ntouch {self.up}/b\nwhile :; do sleep 0.05; done"
        starts, job = self.elastic(body, PROBE=1)
        self.assertEqual(starts, [("2", "a"), ("4", "a b")], job)
        self.expect(job, 0)

    def test_leaves_a_host_that_is_taken_out_of_the_file(self):
        self.bring_up("a", "b", "c")
        body = (f"grep -q b {self.hosts} || exit 0\ntrap 'exit 85' USR1\necho 'a slots=2' > {self.hosts}\n"
                "while :; do sleep 0.05; done")
        starts, job = self.elastic(body, PROBE=1)
        self.assertEqual(starts, [("4", "a b c"), ("2", "a")], job)
        self.expect(job, 0)

    def test_needs_slots_and_a_host_file(self):
        self.hosts.write_text("a slots=2\nb\n")
        _, job = self.elastic("")
        self.expect(job, 2)
        self.assertIn("needs slots=N in each line", job.err)
        job = self.start("--elastic")
        self.expect(job, 2)
        self.assertIn("add --hostfile FILE", job.err)

    def test_needs_seconds_that_make_sense(self):
        self.bring_up("a")
        for name, value in (("PROBE", "0"), ("PROBE", "soon"), ("GRACE", "1.5")):
            _, job = self.elastic("", **{name: value})
            self.expect(job, 2)
            self.assertIn(f"GRACE and PROBE are whole seconds, at least 1, not '{value}'", job.err)


if __name__ == "__main__":
    main()
