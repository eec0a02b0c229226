#!/usr/bin/env python3
"""octet as a library: programs in C++ that find an installation, and the Python module. The examples of docs/library.md
run as they are."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

from harness import OCTET, ROOT, SECONDS, Case, environment, main, with_settings, write_png

BUILD = pathlib.Path(OCTET).resolve().parent
PYTHON = os.environ.get("PYTHON_OF_MODULE", "")
# 16 steps.
RECIPE = """model: {name: resnet20}
data: {name: shapes, samples: 256, batch: 32, workers: 1}
train: {epochs: 2, eval_every_epochs: 100}
backend: {threads: 1}
"""
DETECTOR = str(ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml")
SMALL_DETECTOR = {"data.samples": 16, "data.workers": 1, "train.epochs": 1, "train.steps": 2, "backend.threads": 1}


def example(language):
    return re.search(rf"```{language}\n(.*?)```", (ROOT / "docs/library.md").read_text(), re.DOTALL)[1]


def said(*command, silent=False, **options):
    """What a command that must succeed prints. silent: nothing on standard error."""
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False,
                           stdin=subprocess.DEVNULL, **{"env": environment(), **options})
    if ended.returncode != 0 or (silent and ended.stderr):
        raise AssertionError(f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


class Library(Case):
    def setUp(self):
        super().setUp()
        (self.directory / "mine.yaml").write_text(RECIPE)
        for name, shade in ("a", 90), ("b", 200):
            write_png(self.directory / f"{name}.png", 40, shade)
            self.write_ppm(f"{name}.ppm")

    def write_ppm(self, name):
        width, height = 50, 40
        pixels = random.Random(name).randbytes(3 * width * height)
        (self.directory / name).write_bytes(f"P6\n{width} {height}\n255\n".encode() + pixels)

    def answers(self, run, ending, *words):
        """What the program says of the two images."""
        files = [self.directory / f"{name}.{ending}" for name in "ab"]
        return [json.loads(line) for line in self.octet("predict", run, *files, "--json", "-", *words).out.splitlines()]

    def best(self, run, ending):
        return [(found["top"][0]["class"], found["top"][0]["probability"]) for found in self.answers(run, ending)]


class Cxx(Library):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="octet-prefix-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        for component in "octet", "plain":
            said("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component, "--strip")
        for manifest in BUILD.glob("install_manifest_*.txt"):
            manifest.unlink()

    def build(self, name, source):
        folder = self.directory / name
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(example("cmake"))
        (folder / "example.cpp").write_text(source)
        said("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
             "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        said("cmake", "--build", folder / "build")
        return folder / "build/example"

    def test_the_example_says_what_the_program_says(self):
        program = self.build("example", example("cpp"))
        job = self.launch(["env", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0", program])
        self.expect(job, 1)
        self.assertRegex(job.err, "trains on one rank, and 2 were launched\n  fix: ")
        out = said(program, silent=True, cwd=self.directory).splitlines()
        steps, answers = out[:16], out[16:]
        for number, line in enumerate(steps, 1):
            self.assertRegex(line, rf"^step {number} of 16: loss \d")
        run = self.directory / "runs/mine"
        for line, (name, probability) in zip(answers, self.best(run, "png"), strict=True):
            self.assertEqual(line.split()[0], name)
            self.assertAlmostEqual(float(line.split()[1]), probability, delta=1e-5)

    def test_answers_stops_and_errors(self):
        said(OCTET, "train", "mine.yaml", "--run", "whole", cwd=self.directory)
        answers = self.build("answers", (ROOT / "tests/library/answers.cpp").read_text())
        out = said(answers, "mine.yaml", "whole", "a.ppm", "b.ppm", cwd=self.directory, env={"HOME": "/nowhere"})
        lines = {}
        for line in out.splitlines():
            word, _, rest = line.partition(" ")
            lines.setdefault(word, []).append(rest)
        expected = [f"{name} {probability:.5f} 10" for name, probability in self.best(self.directory / "whole", "ppm")]
        for kind in "file", "pixels", "alone":
            self.assertEqual(lines[kind], expected, kind)
        self.assertEqual((lines["none"], lines["input"]), (["0"], ["32 32 10"]))
        self.assertEqual((lines["stopped"], lines["thrown"]), (["0 3"], ["5"]))
        self.assertEqual([line.split()[:2] for line in lines["step"]], [[str(step), "16"] for step in range(6, 17)])
        whole, resumed = (json.loads((self.directory / run / "result.json").read_text()) for run in ("whole", "stopped"))
        self.assertEqual(resumed["weights_sha256"], whole["weights_sha256"])  # two stops change no bit
        self.assertEqual(lines["finished"], [f"1 16 top1 {whole['top1']:.6f}"])
        for kind, message in (("no_recipe", "absent.yaml.* fix: "), ("wrong_key", "train.lrr.*nearest: `train.lr`"),
                              ("wrong_text", r"recipe:1:9: .*nam\b.* fix: "), ("diverged", "not finite.* fix: "),
                              ("no_run", "'nowhere' does not exist   fix: check the path"),
                              ("no_image", "mine.yaml: .* fix: (?!.*resume)"), ("no_pixels", "0 x 0.* fix: give pixels")):
            self.assertRegex(lines[kind][0], message, kind)

    def test_it_shows_its_interface_alone(self):
        library = next(self.prefix.rglob("liboctet.so"))
        symbols = said("nm", "-D", "-C", "--defined-only", library)
        own = [line.split(" ", 2)[2] for line in symbols.splitlines() if "octet::" in line]
        self.assertGreater(len(own), 10)
        for symbol in own:
            self.assertIn("octet::library::", symbol)
        self.assertNotIn("cpu::", symbols)


def what_python_lacks():
    """Why the module cannot be tested; empty: it can."""
    if not PYTHON:
        return "the build has no Python module: cmake -DOCTET_PYTHON=ON, which needs pybind11 and the headers of Python"
    for module in "numpy", "setuptools", "wheel", "pip":
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
            return f"{PYTHON} has no {module}: launch/setup.sh installs python3-{module}"
    return ""


class Python(Library):
    @classmethod
    def setUpClass(cls):
        cls.lacks = what_python_lacks()
        if cls.lacks:
            return
        cls.modules = pathlib.Path(tempfile.mkdtemp(prefix="octet-modules-"))
        cls.addClassCleanup(shutil.rmtree, cls.modules)
        source = cls.modules / "source"  # what setuptools leaves stays there
        source.mkdir()
        for name in "setup.py", "pyproject.toml", "CMakeLists.txt":
            shutil.copy(ROOT / name, source)
        said(PYTHON, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "--target", cls.modules, source,
             env={**environment(), "OCTET_BUILD": str(BUILD)})

    def setUp(self):
        if self.lacks:
            print(self.lacks)
            self.skipTest(self.lacks)
        super().setUp()

    def python(self, *words, **options):
        return said(PYTHON, *words, cwd=self.directory, env={**environment(), "PYTHONPATH": str(self.modules)}, **options)

    def test_the_example_says_what_the_program_says(self):
        out = self.python("-c", example("python") + "print(kernel.shape, kernel.dtype)", silent=True).splitlines()
        self.assertEqual([line.split()[:2] for line in out[:16]], [[str(step), "16"] for step in range(1, 17)])
        for line, (name, probability) in zip(out[16:18], self.best(self.directory / "runs/mine", "png"), strict=True):
            self.assertEqual(line.split()[0], name)
            self.assertAlmostEqual(float(line.split()[1]), probability, delta=1e-5)
        self.assertEqual(out[18:], ["(16, 3, 3, 3) float32"])

    def test_answers_stops_and_errors(self):
        said(OCTET, "train", "mine.yaml", "--run", "whole", cwd=self.directory)
        self.octet("train", DETECTOR, "--run", self.directory / "detector", *with_settings(SMALL_DETECTOR))
        got = json.loads(self.python(ROOT / "tests/library/answers.py"))
        best = [[name, probability] for name, probability in self.best(self.directory / "whole", "ppm")]
        for kind in "files", "arrays", "views":
            self.assertEqual(got[kind], best, kind)
        found = self.answers(self.directory / "detector", "ppm", "--score", 0.0)
        self.assertGreater(len(found), 10)
        self.assertEqual(got["objects"], [[of["class"], of["bbox"], of["score"]] for of in found])
        self.assertEqual(got["input"], [[32, 32], 10, False])
        self.assertEqual(got["stops"], [["stopped", False, 3], ["ValueError", "at 5"], ["KeyboardInterrupt", ""],
                                        ["stopped", True, 16]])
        whole, resumed = (json.loads((self.directory / run / "result.json").read_text()) for run in ("whole", "stopped"))
        self.assertEqual(resumed["weights_sha256"], whole["weights_sha256"])
        self.assertEqual(got["figures"], [whole["top1"], "top1"])
        self.assertGreater(got["counted"], 100)  # another thread of Python ran during the training
        for message, pattern in zip(got["errors"], (
                "Failure: 'nowhere' does not exist\n  fix: ", "Failure: .*train.lrr", "TypeError: .*fix: predict.\\[image",
                "TypeError: .*float64; fix: give", "TypeError: .*mixed", "Failure: 'mine.yaml': .*\n  fix: ",
                "Failure: mine.yaml: .*\n  fix: "), strict=True):
            self.assertRegex(message, pattern)


if __name__ == "__main__":
    main()
