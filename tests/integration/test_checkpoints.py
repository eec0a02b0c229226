#!/usr/bin/env python3
"""Disks that are full, checkpoints that are damaged, and run directories that are taken."""

import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess

from harness import OCTET, RECIPE, ROOT, Case, main, on_ranks, with_settings, write_png


def file_limit(size):
    """A limit on the size of each file, as on a full disk. ResNet-20: a checkpoint has 2.2 MB, weights 1.1 MB."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class FullDisk(Case):
    def test_refused_checkpoint_is_a_warning(self):
        expected = self.weights_of("whole")
        self.train("full", train__steps=6, checkpoint__every_steps=3)
        job = self.train("full", resume=True, limit=file_limit(1_600_000), checkpoint__every_steps=3)
        self.assertIn("warning: no checkpoint at step 9", job.err)
        self.assertIn("File too large", job.err)
        self.assertEqual(self.checkpoints("full"), [3, 6], job)  # nothing lost, nothing half-written
        self.assertEqual(list(self.run_path("full").rglob("*.tmp")), [])
        self.assertEqual(self.result("full")["weights_sha256"], expected)

    def test_stop_without_a_checkpoint_is_an_error(self):
        """A requeued job would lose the steps of the stopped one, again and again."""
        self.train("full", train__steps=6)
        job = self.start("full", resume=True, limit=file_limit(1_600_000), train__steps=1000)
        self.wait_for_step(job, "full", 8)
        job.process.send_signal(signal.SIGUSR1)
        self.expect(job, 74)
        self.assertRegex(job.err, "the checkpoint could not be written\n.*fix: free space")
        self.assertEqual(self.checkpoints("full"), [6])

    def test_refused_weights_are_an_error(self):
        """The result cannot be written: the training fails, and its checkpoints remain."""
        self.train("full", train__steps=8)
        job = self.train("full", code=74, resume=True, limit=file_limit(500_000), comm__timeout_seconds=2)
        self.assertRegex(job.err, "trying again for 2 s: .*weights.safetensors.*File too large")
        self.assertRegex(job.err, "no other place takes the trained weights either\n.*fix: make room")
        self.assertEqual(self.checkpoints("full"), [8])

    def test_disk_that_is_full_at_the_end_is_waited_for(self):
        settings = {"train__steps": 160, "train__epochs": 20, "checkpoint__every_steps": 10**6}
        expected = self.weights_of("whole", **settings)
        for ranks in 1, 2:
            run = f"full{ranks}"
            job = self.start(run, ranks=ranks, **settings)
            self.wait_for_step(job, run, 1)
            writer = job.ranks()[0] if ranks > 1 else job.process.pid
            resource.prlimit(writer, resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
            self.wait_for_words(job, "trying again for 180 s")
            self.assertIn("there is no checkpoint at all", job.err)
            resource.prlimit(writer, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            self.expect(job, 0)
            if ranks == 1:
                self.assertEqual(self.result(run)["weights_sha256"], expected)

    def test_weights_go_elsewhere(self):
        """The run directory takes all but the weights."""
        other, run = self.directory / "other", self.run_path("full")
        other.mkdir()
        (run / "weights.safetensors.tmp").mkdir(parents=True)
        job = self.launch(["env", f"TMPDIR={other}", *self.words("full", comm__timeout_seconds=1)])
        self.expect(job, 74)
        kept = re.search(r"the trained weights are in (\S+)\n.*fix: make room", job.err)[1]
        self.assertEqual(pathlib.Path(kept).parent, other)
        (run / "weights.safetensors.tmp").rmdir()
        self.train("full", resume=True)
        self.assertEqual(self.result("full")["weights_sha256"], self.weights_of("whole"))
        data = lambda path: path.read_bytes()[8 + struct.unpack("<Q", path.read_bytes()[:8])[0]:]
        self.assertEqual(data(pathlib.Path(kept)), data(run / "weights.safetensors"))

    def test_log_names_the_first_and_the_last(self):
        job = self.train("often", checkpoint__every_steps=1)
        self.assertEqual(re.findall(r"checkpoint at step (\d+), in", job.err), ["1", "2", "16"], job)

    def test_deleted_folder_is_made_again(self):
        job = self.start("gone", train__steps=0, train__epochs=1000, checkpoint__every_steps=2)
        self.wait_for_words(job, "checkpoint at step 4")
        shutil.rmtree(self.run_path("gone") / "checkpoints", ignore_errors=True)
        job.process.send_signal(signal.SIGUSR1)
        self.expect(job, 85)
        self.assertTrue(self.checkpoints("gone"), job)

    def test_slow_disk_is_no_hang(self):
        """Rank 0 takes six times comm.timeout_seconds for a checkpoint; the other rank knows that it saves."""
        library = self.directory / "slow.so"
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("needs a C compiler")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, ROOT / "tests/faults/preload.c"], check=True)
        words = self.words("slow", train__steps=3, comm__timeout_seconds=2, checkpoint__best="false")
        slowed = ["sh", "-c", f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] || export FAULT_FSYNC=12 LD_PRELOAD={library}; exec "$@"', "sh", *words]
        job = self.launch([*on_ranks(2), *slowed])
        self.expect(job, 0, seconds=150)
        self.assertRegex(job.err, r"checkpoint at step 3, in 1\d\.\d s")
        self.assertNotIn("ending the job", job.err)


class ByTime(Case):
    def test_every_minutes(self):
        job = self.start("timed", ranks=2, train__steps=0, train__epochs=1000, checkpoint__every_steps=10**6,
                         checkpoint__every_minutes=0.02)
        self.wait_for_words(job, "checkpoint at step", times=2)
        job.kill()
        self.assertTrue(self.checkpoints("timed"))


class BestWeights(Case):
    OPTIONS = {"train__steps": 24, "train__eval_every_epochs": 1}

    def best_of(self, run):
        """The metadata of the file and its content."""
        data = (self.run_path(run) / "best.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        return json.loads(data[8:8 + length])["__metadata__"], data

    def test_the_first_of_the_best_evaluations(self):
        for ranks in 1, 2:
            self.train(f"on{ranks}", ranks=ranks, **self.OPTIONS)
            tests = [(m["step"], m["top1"]) for m in self.metrics(f"on{ranks}") if m["kind"] == "test"]
            self.assertEqual(len(tests), 3)
            step, top1 = max(tests, key=lambda test: test[1])  # the first of equal ones
            best = self.result(f"on{ranks}")["best"]
            self.assertEqual((best["step"], best["epoch"], best["top1"]), (step, step // 8, top1))
            self.assertEqual(self.best_of(f"on{ranks}")[0]["step"], str(step))
            job = self.octet("eval", RECIPE, "--weights", self.run_path(f"on{ranks}") / "best.safetensors", "--json",
                             *with_settings({"data.samples": 256, "data.batch": 32}))
            self.assertEqual(json.loads(job.out)["top1"], top1)
            self.assertGreater(json.loads(job.out)["images"], 0)
            of_run = self.octet("eval", self.run_path(f"on{ranks}"), "--json")  # the best weights, on the run's own data
            self.assertEqual(json.loads(of_run.out), json.loads(job.out))

    def test_resumed_run_keeps_it(self):
        self.train("whole", **self.OPTIONS)
        self.train("parts", **{**self.OPTIONS, "train__steps": 16})  # the end of an epoch, which both runs judge
        self.train("parts", resume=True, **self.OPTIONS)
        self.assertEqual(self.result("parts")["best"], self.result("whole")["best"])
        # What no evaluation can exceed stays, whatever the resumed run brings.
        self.train("ideal", **{**self.OPTIONS, "train__steps": 8})
        figures, data = self.best_of("ideal")
        was = figures["figures"]
        ideal = json.dumps(json.loads(was) | {"top1": 1.5})
        encode = lambda text: json.dumps(text).encode()
        header = data[8:8 + struct.unpack("<Q", data[:8])[0]].replace(encode(was), encode(ideal))
        changed = struct.pack("<Q", len(header)) + header + data[8 + struct.unpack("<Q", data[:8])[0]:]
        (self.run_path("ideal") / "best.safetensors").write_bytes(changed)
        self.train("ideal", resume=True, **self.OPTIONS)
        self.assertEqual(self.best_of("ideal")[1], changed)
        self.assertEqual(self.result("ideal")["best"], {"epoch": 1, "step": 8, **json.loads(ideal)})

    def test_refused_file_is_a_warning(self):
        expected = self.weights_of("whole", **self.OPTIONS)
        (self.run_path("full") / "best.safetensors.tmp").mkdir(parents=True)
        job = self.train("full", **self.OPTIONS)
        self.assertRegex(job.err, "warning: the best weights so far, of step 8, are not kept: .*best.safetensors")
        self.assertNotIn("best", self.result("full"))
        self.assertEqual(self.result("full")["weights_sha256"], expected)

    def test_none_wanted(self):
        self.train("without", checkpoint__best="false", **self.OPTIONS)
        self.assertFalse((self.run_path("without") / "best.safetensors").exists())
        self.assertNotIn("best", self.result("without"))


class Damaged(Case):
    def damage(self, run, change):
        """Changes the newest of the checkpoints 3, 6 and 9. The resumed run must report it, and continue from 6."""
        expected = self.weights_of("whole")
        self.train(run, train__steps=9, checkpoint__every_steps=3)
        newest = self.checkpoint_path(run, 9)
        data = bytearray(newest.read_bytes())
        newest.write_bytes(change(data))
        job = self.train(run, resume=True, checkpoint__every_steps=3)
        self.assertRegex(job.err, f"warning: .*{newest.name}")
        self.assertIn("step-00000006.safetensors at step 6", job.err)
        self.assertEqual(self.result(run)["weights_sha256"], expected)

    def test_truncated_newest(self):
        self.damage("cut", lambda data: data[: len(data) // 2])

    def test_flipped_bit_in_newest(self):
        def flip(data):
            data[len(data) // 2] ^= 0x10
            return data
        self.damage("flipped", flip)

    def test_newest_of_another_network(self):
        expected = self.weights_of("whole", train__steps=4)
        self.train("other", train__steps=3, model__name="mobilenet_v2")
        foreign = self.checkpoint_path("other", 3).read_bytes()
        self.train("mine", train__steps=3, checkpoint__every_steps=1)
        self.checkpoint_path("mine", 3).write_bytes(foreign)
        job = self.train("mine", resume=True, train__steps=4, checkpoint__every_steps=10)
        self.assertRegex(job.err, "warning: .*step-00000003.safetensors is of another run: .*mobilenet_v2.*resnet20")
        self.assertIn("step-00000002.safetensors at step 2", job.err)
        self.assertEqual(self.result("mine")["weights_sha256"], expected)
        for step in self.checkpoints("mine"):
            if step != 3:
                self.checkpoint_path("mine", step).unlink()
        job = self.train("mine", code=2, ranks=2, resume=True, train__steps=5)
        self.assertRegex(job.err, "error on rank 0 .*step-00000003.safetensors is of another run: .*\n.*fix: ")

    def test_none_that_can_be_used(self):
        """No new training starts in their directory."""
        self.train("all", train__steps=6, checkpoint__every_steps=3)
        for path in (self.run_path("all") / "checkpoints").glob("step-*"):
            path.write_bytes(path.read_bytes()[:1000])
        before = self.metrics("all")
        for ranks in 1, 2:
            job = self.train("all", code=4, resume=True, ranks=ranks, checkpoint__every_steps=3)
            self.assertRegex(job.err, "none of .*checkpoints can be used\n.*fix: do what the warnings say")
        self.assertEqual(self.metrics("all"), before)
        self.assertEqual(self.checkpoints("all"), [3, 6])


class RunDirectory(Case):
    def test_taken_without_resume(self):
        self.train("taken", train__steps=4, checkpoint__every_steps=2)
        before = self.checkpoint_path("taken", 4).read_bytes()
        for ranks in 1, 2:
            job = self.train("taken", code=2, ranks=ranks, train__steps=4)
            self.assertEqual(job.err.count("octet: error"), 1, job)
            self.assertRegex(job.err, "holds an earlier run: config.yaml\n.*fix: add --resume")
        self.assertEqual(self.checkpoint_path("taken", 4).read_bytes(), before)

    def test_two_trainings_in_one_place(self):
        first = self.start("shared", train__steps=0, train__epochs=1000)
        self.wait_for_step(first, "shared", 1)
        # With two ranks it must not wait longer than the second's watchdog.
        for ranks, seconds in (1, 600), (2, 4):
            job = self.train("shared", code=75, ranks=ranks, resume=True, train__steps=0, train__epochs=1000,
                             comm__timeout_seconds=seconds)
            self.assertRegex(job.err, r"shared is in use by process \d+ on \S+\n.*fix: wait until it ends")
        first.process.terminate()
        self.expect(first, 85)
        steps = [record["step"] for record in self.metrics("shared") if record["kind"] == "train"]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_deleted_in_mid_run(self):
        """The training goes on in a new directory, which no other one can take."""
        endless = {"train__steps": 0, "train__epochs": 1000}
        job = self.start("gone", **endless)
        self.wait_for_step(job, "gone", 3)
        self.run_path("gone").rename(self.directory / "moved")
        self.wait_for_words(job, "was deleted in mid-run")
        second = self.train("gone", code=75, resume=True, comm__timeout_seconds=1, **endless)
        self.assertIn(f"is in use by process {job.process.pid} on", second.err)
        job.process.send_signal(signal.SIGUSR1)
        self.expect(job, 85)
        self.assertRegex(job.err, r"warning: \S+/gone was deleted in mid-run: what it held is lost, and the training goes on")
        self.assertEqual(job.err.count("warning"), 1, job)
        steps = [record["step"] for record in self.metrics("gone") if record["kind"] == "train"]
        self.assertEqual(steps, list(range(steps[0], steps[-1] + 1)))
        self.assertEqual(self.checkpoints("gone")[-1], steps[-1])
        self.assertIn("octet-heartbeats", (self.run_path("gone") / "heartbeats").read_text())
        self.train("gone", resume=True, **{**endless, "train__steps": steps[-1] + 1})
        self.assertEqual(self.result("gone")["steps"], steps[-1] + 1)

    def test_deleted_and_cannot_be_made_again(self):
        run = self.run_path("gone")
        job = self.start("gone", train__steps=0, train__epochs=1000)
        self.wait_for_step(job, "gone", 3)
        job.process.send_signal(signal.SIGSTOP)
        run.rename(self.directory / "moved")
        run.write_text("in the way")
        job.process.send_signal(signal.SIGCONT)
        self.wait_for_words(job, "cannot be made again yet: ")
        run.unlink()
        self.wait_for_step(job, "gone", 3)
        job.process.send_signal(signal.SIGUSR1)
        self.expect(job, 85)
        for words in "gone was deleted in mid-run", "gone cannot be made again yet: ":
            self.assertEqual(job.err.count(words), 1, job)
        self.assertTrue(self.checkpoints("gone"), job)

    def test_resumed_with_other_training(self):
        self.train("other", train__steps=4, checkpoint__every_steps=2)
        job = self.train("other", code=2, resume=True, train__lr=0.05)
        self.assertRegex(job.err, "started with `train.lr: 0.1`, now it is `train.lr: 0.05`")
        self.assertIn("lr: 0.1", (self.run_path("other") / "config.yaml").read_text())
        self.assertIn("comm.exchange", self.train("other", code=2, resume=True, comm__exchange="fp32").err)
        self.train("other", train__steps=5, resume=True, data__bad_images="skip", train__on_nonfinite="skip")
        job = self.train("other", code=2, train__steps=6, resume=True, train__on_nonfinite="stop")
        self.assertIn("started with `", job.err)  # what was skipped would have stopped it

    def write_pictures(self, name, count):
        """A folder of two classes, with `count` images in each split of each. Returns the settings that read it."""
        for folder in "train/a", "train/b", "val/a", "val/b":
            (self.directory / name / folder).mkdir(parents=True)
            for picture in range(count):
                write_png(self.directory / name / folder / f"{picture}.png", 32, picture)
        return {"data__name": "image_folder", "data__root": self.directory / name, "data__image_size": 32,
                "data__samples": 0, "model__classes": 2}

    def test_two_packs_in_one_place(self):
        settings = {key.replace("__", "."): value for key, value in self.write_pictures("pictures", 2).items()}
        packed = self.directory / "packed"
        words = [OCTET, "pack", RECIPE, "--output", packed, *with_settings(settings)]
        packed.mkdir()
        with open(packed / "lock", "w", encoding="utf-8") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            job = self.launch(words)
            self.expect(job, 75)
            self.assertRegex(job.err, "packed is in use by .*\n.*fix: wait until it ends")
        self.assertFalse((packed / "train.pack.tmp").exists())
        self.expect(self.launch(words), 0)
        self.assertTrue((packed / "train.pack").exists())

    def test_batches_without_a_readable_picture(self):
        """A few small batches without an image are chance; many in a row are missing data."""
        settings = self.write_pictures("bad", 6) | {"data__batch": 2, "data__bad_images": "skip", "train__steps": 0,
                                                    "train__epochs": 1}
        train = sorted((self.directory / "bad" / "train").glob("*/*.png"))
        for picture in train[:10]:
            picture.write_text("no picture")
        for ranks in 1, 2:
            job = self.train(f"few{ranks}", ranks=ranks, **settings)
            self.assertRegex(job.err, r"warning: step \d+: no image of the batch could be read; the step was skipped")
            self.assertRegex(job.err, r"[45] of 6 steps were skipped")
        for picture in train[10:]:
            picture.write_text("no picture")
        for ranks in 1, 2:
            job = self.train(f"all{ranks}", code=2, ranks=ranks, **{**settings, "train__epochs": 2})
            self.assertEqual(job.err.count("octet: error"), 1, job)
            self.assertRegex(job.err, "step 10: no image of the last 10 batches could be read\n.*fix: check that")

    def test_other_data(self):
        """Ranks with different data would wait for each other; a resumed run would train on other data."""
        self.write_pictures("two", 12)
        settings = self.write_pictures("one", 16) | {"data__batch": 8, "train__steps": 2}
        self.train("one", **settings)
        (self.directory / "one").rename(self.directory / "moved")
        settings |= {"data__root": self.directory / "moved", "train__steps": 3}
        self.train("one", resume=True, **settings)
        settings |= {"data__root": self.directory / "two", "train__steps": 4}
        self.assertRegex(self.train("one", code=2, resume=True, **settings).err, "was trained on other data")

        here = '$([ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo moved || echo two)'
        command = " ".join(map(str, self.words("ranks", **{**settings, "data__root": f"{self.directory}/{here}"})))
        job = self.launch([*on_ranks(2), "sh", "-c", f"exec {command}"])
        self.expect(job, 2)
        self.assertRegex(job.err, r"octet: error on rank 1 on \S+: .*have different data; here: image_folder: 32 images")

        (self.directory / "two" / "train").rename(self.directory / "train")
        chosen = {key.replace("__", "."): value for key, value in settings.items() if not key.startswith("train")}
        job = self.octet("eval", RECIPE, "--weights", self.run_path("one") / "weights.safetensors", *with_settings(chosen))
        self.assertIn("test loss", job.out)  # no training set is asked for

    def test_finished_run_stays_as_it_is(self):
        for ranks in 1, 2:
            run = f"finished{ranks}"
            self.train(run, train__steps=3, ranks=ranks)
            files = [self.run_path(run) / name for name in ("result.json", "weights.safetensors", "metrics.jsonl")]
            before = [file.read_bytes() for file in files]
            self.assertIn("is finished", self.train(run, train__steps=3, ranks=ranks, resume=True).err)
            self.assertEqual([file.read_bytes() for file in files], before)
        self.train("finished1", train__steps=5, resume=True)
        self.assertEqual(self.result("finished1")["weights_sha256"], self.weights_of("longer", train__steps=5))
        self.assertEqual([record["step"] for record in self.metrics("finished1") if record["kind"] == "test"], [3, 5])
        result = self.result("finished1")
        self.assertIn("more steps than the configured 4", self.train("finished1", code=2, train__steps=4, resume=True).err)
        self.assertEqual(self.result("finished1"), result)

    def test_result_is_written_again(self):
        """What only a training can measure is left out: no step was run."""
        self.train("lost", train__steps=3)
        before = self.result("lost")
        (self.run_path("lost") / "result.json").unlink()
        self.assertNotIn("img/s", self.train("lost", train__steps=3, resume=True).err)
        after = self.result("lost")
        measured = {"images_per_second", "wire_bytes_per_step"}
        self.assertEqual(set(before) - set(after), measured)
        self.assertGreater(after["wall_seconds"], 0.5 * before["wall_seconds"])  # of both processes
        self.assertEqual({key: after[key] for key in ("top1", "loss", "weights_sha256", "steps")},
                         {key: before[key] for key in ("top1", "loss", "weights_sha256", "steps")})

    def test_result_without_checkpoints(self):
        self.train("bare", train__steps=3)
        shutil.rmtree(self.run_path("bare") / "checkpoints")
        files = [self.run_path("bare") / name for name in ("result.json", "weights.safetensors", "metrics.jsonl")]
        before = [file.read_bytes() for file in files]
        for ranks in 1, 2:
            job = self.train("bare", code=2, ranks=ranks, resume=True, train__steps=3)
            self.assertEqual(job.err.count("octet: error"), 1, job)
            self.assertRegex(job.err, "holds a result but no checkpoints\n.*fix: choose another directory, or move")
        self.assertEqual([file.read_bytes() for file in files], before)

    def test_oldest_checkpoints_go(self):
        self.train("kept", checkpoint__every_steps=2, checkpoint__keep=2)
        self.assertEqual(self.checkpoints("kept"), [14, 16])

    def test_default_names_do_not_collide(self):
        folder = self.directory / "here"
        folder.mkdir()
        words = ["train", "../recipe.yaml", "--set", "train.steps=1", "--set", "data.samples=128"]
        (self.directory / "recipe.yaml").write_text("data: {batch: 32}\n")
        for _ in range(2):
            job = self.launch(["env", f"--chdir={folder}", OCTET, *words])
            self.expect(job, 0)
        self.assertEqual(sorted(path.name for path in (folder / "runs").iterdir()), ["recipe", "recipe-2"])
        job = self.launch(["env", f"--chdir={folder}", OCTET, *words, "--resume"])
        self.expect(job, 2)
        self.assertIn("choose one with --run", job.err)


if __name__ == "__main__":
    main()
