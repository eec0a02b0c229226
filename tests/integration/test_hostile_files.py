#!/usr/bin/env python3
"""Files of strangers that ask for far more memory than they have bytes, or that are not what their names say. Each is made here."""

import json
import os
import socket
import struct
import subprocess
import threading
import zlib

from harness import OCTET, Case, environment, main, write_png

MOST = 600  # MB of resident memory


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def tiff(width, height, more, data):
    """A little-endian file with the pixels `data` behind its head. more: (tag, type, count, value) beside the usual fields."""
    fields = {256: (4, 1, width), 257: (4, 1, height), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1), 273: (4, 1, 8),
              277: (3, 1, 1), 278: (4, 1, height), 279: (4, 1, len(data)), **more}
    entries = b"".join(struct.pack("<HHII", tag, *field) for tag, field in sorted(fields.items()))
    return b"II*\0" + struct.pack("<I", 8 + len(data)) + data + struct.pack("<H", len(fields)) + entries + bytes(4)


class HostileFiles(Case):
    def measured(self, *words, seconds=60):
        """The output and the peak of the memory, in MB, of a command that ends by itself."""
        process = subprocess.Popen([OCTET, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, cwd=self.directory, env=environment())
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        text = process.stdout.read().decode(errors="replace")
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertGreaterEqual(process.returncode, 0, text[-2000:])
        return text, usage.ru_maxrss / 1024

    def write(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def checked(self, name, image):
        """What `octet check` says of a folder with this image."""
        for split in "train", "val":
            for of in "cat", "dog":
                write_png(self.write(f"data/{split}/{of}/a.png", b""), 32, 0)
        self.write(f"data/train/cat/{name}", image)
        text, peak = self.measured("check", self.write("recipe.yaml", "data: {name: image_folder, root: data, image_size: 32, "
                                                       "workers: 1}\nmodel: {classes: 2}\n"))
        self.assertLess(peak, MOST, text)
        return text

    def test_texts_of_a_png(self):
        """Each text unpacks to nearly eight megabytes, the most that libpng takes for one."""
        good = self.write("good.png", b"")
        write_png(good, 32, 0)
        text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"x" * 7_900_000, 9))
        png = good.read_bytes()
        self.assertRegex(self.checked("b.png", png[:33] + 150 * text + png[33:]), r"images that can be read +3 ")

    def test_strips_of_a_tiff(self):
        """PackBits repeats a byte 128 times."""
        pixels = b"\x81\0" * (1_000 * 1_000 * 800 // 128)
        image = tiff(1000, 1000, {258: (3, 1, 8), 259: (3, 1, 32773), 262: (3, 1, 2), 277: (3, 1, 800)}, pixels)
        self.assertIn("strips or tiles of 800000000 bytes", self.checked("b.tif", image))

    def test_fields_of_a_tiff_that_overlap(self):
        pixels = bytes(3000 * 3000)
        more = {40000 + i: (1, len(pixels), 8) for i in range(100)}
        self.assertIn("its fields have more bytes than the file", self.checked("b.tif", tiff(3000, 3000, more, pixels)))

    def test_recipes(self):
        many = "[" + "1," * 500_000 + "]"
        alias = "note: &a " + "x" * 500_000 + "\nlist: [" + "*a," * 100_000 + "]\n"
        for name, text in ("many", f"train: {{milestones: {many}}}"), ("alias", alias):
            said, peak = self.measured("plan", self.write(f"{name}.yaml", text))
            self.assertIn("octet: error", said)
            self.assertLess(peak, MOST, said[-500:])

    def test_studies(self):
        self.write("recipe.yaml", "data: {name: shapes}\n")
        head = "base: recipe.yaml\n"
        labels = "{" + ",".join(f"l{i}: {{}}" for i in range(10)) + "}"
        grid = head + "grid:\n" + "".join(f"  a{i}: {labels}\n" for i in range(20))
        alias = head + "note: &a " + "x" * 500_000 + "\ngrid: {p: {a: {data.root: [" + "*a," * 10_000 + "]}}}\n"
        wide = head + "grid: {p: {" + ",".join(f"l{i}: {{}}" for i in range(60_000)) + "}}\n"
        for text in grid, alias, wide:
            said, peak = self.measured("study", self.write("study.yaml", text), "--list")
            self.assertIn("octet: error", said)
            self.assertLess(peak, MOST, said[-500:])

    def test_records(self):
        """Lists in lists, and a file that is far longer than what it holds."""
        run = self.directory / "run"
        good = '{"step": 1, "kind": "train", "loss": 2.5}\n'
        self.write("run/metrics.jsonl", good + 20_000_000 * "[")
        said, peak = self.measured("inspect", run)
        self.assertIn("metrics.jsonl:2: octet did not write this record", said)
        self.assertLess(peak, MOST)
        os.truncate(self.write("run/metrics.jsonl", good), 100 << 30)
        said, peak = self.measured("inspect", run)
        self.assertIn("metrics.jsonl' has more than", said)
        self.assertLess(peak, MOST)
        self.write("run/metrics.jsonl", good)
        self.write("run/evaluation.json", '{"step": 1, "images": 1, "label": [' + 20_000_000 * "[]," + "[]]}")
        said, peak = self.measured("inspect", run)
        self.assertIn("evaluation.json: octet did not write this file", said)
        self.assertLess(peak, MOST)

    def test_outputs_that_are_no_files(self):
        run, page, file = (self.directory / name for name in ("run", "page", "file"))
        self.write("run/metrics.jsonl", '{"step": 1, "kind": "train", "loss": 2.5}\n')
        os.mkfifo(page)
        reader = subprocess.Popen(["cat", page], stdout=subprocess.PIPE)
        self.addCleanup(reader.kill)
        self.measured("inspect", run, "--output", page, seconds=10)
        self.assertTrue(page.is_fifo())
        self.assertIn(b"</html>", reader.communicate(timeout=10)[0])
        self.assertIn("</html>", self.measured("inspect", run, "--output", "/dev/stdout")[0])
        page.unlink()
        page.symlink_to("file")
        self.assertIn("leads to no file", self.measured("inspect", run, "--output", page)[0])
        file.touch()
        self.measured("inspect", run, "--output", page)
        self.assertTrue(page.is_symlink())
        self.assertIn("</html>", file.read_text())
        page.unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(page))
            self.assertIn("neither a file, nor a pipe", self.measured("inspect", run, "--output", page)[0])
            self.assertTrue(page.is_socket())
        beside = self.directory / "file.tmp"
        beside.symlink_to("other")
        self.assertIn("file.tmp first, and something else", self.measured("inspect", run, "--output", file)[0])
        self.assertTrue(beside.is_symlink())

    def test_pipes_in_a_run_folder(self):
        run = self.directory / "run"
        run.mkdir()
        self.write("run/config.yaml", "data: {name: shapes}\n")
        self.write("run/metrics.jsonl", '{"step": 1, "kind": "train", "loss": 2.5}\n')
        for name in "heartbeats", "lock", "result.json", "evaluation.json":
            os.mkfifo(run / name)
        said, _ = self.measured("status", run, seconds=10)
        self.assertIn("run: ", said)
        said, _ = self.measured("inspect", run, seconds=10)
        self.assertIn("is not a regular file", said)
        os.mkfifo(run / "other.yaml")
        said, _ = self.measured("plan", run / "other.yaml", seconds=10)
        self.assertIn("is a pipe", said)

    def test_heartbeats_of_nobody(self):
        run = self.directory / "run"
        run.mkdir()
        self.write("run/config.yaml", "data: {name: shapes}\n")
        line = "octet-heartbeats job {} 0 100 64 1.0"
        self.write("run/heartbeats", line.format(3_000_000).ljust(319) + "\n")
        said, _ = self.measured("status", run)
        self.assertLess(len(said), 1000)
        beat = b"0 \x1b[31mh0\xff 1 1 1 1 1 1 0 0 0 0 0 0 1 0 start".ljust(319) + b"\n"
        self.write("run/heartbeats", line.format(4000).ljust(319).encode() + b"\n" + beat)
        said, _ = self.measured("status", run)
        self.assertNotIn("\x1b", said)
        self.assertLess(len(said), 2000)
        self.assertEqual(len(json.loads(self.measured("status", "--json", run)[0])["ranks"]), 1)

    def test_lists_that_do_not_agree(self):
        run = self.directory / "run"
        self.write("run/metrics.jsonl", '{"step": 1, "kind": "train", "loss": 2.5}\n')
        answers = {"step": 1, "images": 2, "classes": ["a"], "label": [0, 0], "predicted": [0], "probability": [1, 1]}
        for change in {}, {"predicted": [0, 7]}, {"predicted": [0, -9]}, {"images": -1}, {"images": 1e300}, {"classes": [], "label": [0, 2000000000]}:
            self.write("run/evaluation.json", json.dumps({**answers, **change}))
            said, peak = self.measured("inspect", run)
            self.assertIn("evaluation.json: ", said)
            self.assertLess(peak, MOST)
        (run / "evaluation.json").unlink()
        for result in '{"best": {"epoch": 1, "step": 2}}', '{"steps": -1}', '{"best": ' + 100_000 * "[":
            self.write("run/result.json", result)
            self.assertIn("octet: error", self.measured("inspect", run)[0])

    def test_nothing_is_written_through_links(self):
        victim = self.write("victim", "my notes\n")
        run = self.directory / "studies/s/one-seed1"
        run.mkdir(parents=True)
        (run / "train.log").symlink_to(victim)
        self.write("recipe.yaml", "data: {name: shapes}\n")
        study = self.write("s.yaml", "base: recipe.yaml\ngrid: {p: {one: {train.steps: 1}}}\n")
        self.assertIn("octet: error", self.measured("study", study, "--directory", "studies/s")[0])
        (run / "train.log").unlink()
        os.link(victim, self.directory / "studies/s/lock")
        os.link(victim, run / "lock")
        self.assertIn("is no lock of octet", self.measured("train", "recipe.yaml", "--run", run)[0])
        self.assertIn("is not a file that octet wrote", self.measured(
            "train", "recipe.yaml", "--run", "other", "--set", "train.steps=1", "--set", f"train.prometheus={victim}")[0])
        self.assertEqual(victim.read_text(), "my notes\n")


if __name__ == "__main__":
    main()
