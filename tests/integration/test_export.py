#!/usr/bin/env python3
"""octet export: files are checked before they are written, hold what the documents say, and run in other programs."""

import pathlib
import re
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

from harness import OCTET, RECIPE, ROOT, SMALL, Case, main, with_settings

try:
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import PIL  # noqa: F401
    REASON = ""
except ImportError as error:
    REASON = str(error)


class Export(Case):
    """The network has hardly trained, so that its first two classes are often close."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="octet-")
        cls.addClassCleanup(folder.cleanup)
        cls.run_folder = pathlib.Path(folder.name) / "run"
        settings = {**SMALL, "train.steps": 24, "train.epochs": 3, "train.eval_every_epochs": 3}
        subprocess.run([OCTET, "train", RECIPE, "--run", cls.run_folder, *with_settings(settings)], check=True,
                       capture_output=True)

    def export(self, name, *words, agreement=90, code=0):
        self.file = self.directory / f"{name}.onnx"
        return self.octet("export", self.run_folder, "--for", name, "--output", self.file, "--agreement", agreement, *words, code=code)

    def test_every_format(self):
        for name in "onnxruntime", "openvino", "tensorrt", "float":
            job = self.export(name)
            self.assertRegex(job.out, r"(?m)^the file .*top-1.*\noctet eval .*top-1")
            self.assertIn(f"wrote {self.file}", job.out)
            self.assertGreater(self.file.stat().st_size, 100_000)

    def test_samples(self):
        self.export("onnxruntime", "--check-with", self.directory / "samples")
        self.assertEqual(len(list((self.directory / "samples/codes").iterdir())), 32)
        content = (self.directory / "samples/images.npy").read_bytes()
        (length,) = struct.unpack("<H", content[8:10])
        self.assertIn(b"'shape': (32, 3, 32, 32)", content[:10 + length])
        values = struct.unpack(f"<{32 * 3 * 32 * 32}f", content[10 + length:])
        self.assertTrue(all(0 <= value <= 1 and abs(255 * value - round(255 * value)) < 1e-4 for value in values))

    def test_c(self):
        """A compiled example says of images what the export's check said of them."""
        name, samples = self.directory / "net", self.directory / "samples"
        job = self.octet("export", self.run_folder, "--for", "c", "--output", name, "--agreement", 90, "--example",
                         "--check-with", samples)
        for ending in ".h", ".c", "_main.c":
            self.assertIn(f"wrote {name}{ending}", job.out)
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", name, f"{name}.c", f"{name}_main.c"],
                       check=True)
        places = int(re.search(r"LOGIT_BITS (\d+)", name.with_suffix(".h").read_text())[1])
        images, logits = self.floats(samples / "images.npy"), self.floats(samples / "logits.npy")
        for i in range(32):
            planes = [round(255 * value) for value in images[i * 3072:(i + 1) * 3072]]
            pixels = bytes(planes[channel * 1024 + pixel] for pixel in range(1024) for channel in range(3))
            said = subprocess.run([name], input=pixels, check=True, capture_output=True).stdout.decode().split()
            real = logits[i * 10:(i + 1) * 10]
            self.assertEqual(int(said[0]), real.index(max(real)))
            self.assertAlmostEqual(int(said[1]) / 2**places, max(real), delta=1e-5 * max(map(abs, real)))
        for wrong in b"", pixels + b"0":
            job = subprocess.run([name], input=wrong, capture_output=True)
            self.assertEqual((job.returncode, job.stdout), (1, b""))
            self.assertIn(b"give 3072 bytes", job.stderr)

    def test_c_refusals(self):
        export = ["export", self.run_folder, "--unchecked", "--for"]
        self.assertIn("begins no name in C", self.octet(*export, "c", "--output", self.directory / "7net", code=2).err)
        self.assertIn("begins no name in C", self.octet(*export, "c", "--output", "-", code=2).err)
        self.assertIn("'stdint.h' is a header of C", self.octet(*export, "c", "--output", self.directory / "stdint", code=2).err)
        self.assertIn("has no example", self.octet(*export, "float", "--output", self.directory / "f.onnx", "--example", code=2).err)
        self.octet(*export, "c", "--output", self.directory / "net.c")
        self.assertEqual(sorted(file.name for file in self.directory.glob("net*")), ["net.c", "net.h"])
        for _ in range(2):  # octet's own may be replaced
            self.octet(*export, "c", "--output", self.directory / "net", "--example")
        example = (self.directory / "net_main.c").read_text()
        for name, text in ("own.c", "/* My firmware, for a network written by octet. */\n"), ("own.h", ""), ("own_main.c", example + "\n"):
            (self.directory / name).write_text(text)
            job = self.octet(*export, "c", "--output", self.directory / "own", "--example", code=2)
            self.assertIn(f"{name} is there, and is not what octet wrote", job.err)
            self.assertEqual([file.name for file in self.directory.glob("own*")], [name])
            (self.directory / name).unlink()

    def test_c_on_a_full_disk(self):
        """No file of an export is put in place unless all fit."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # enough for the header alone
        job = self.launch([OCTET, "export", self.run_folder, "--unchecked", "--for", "c", "--output", self.directory / "net"], limit)
        self.expect(job, 74)
        self.assertIn("File too large", job.err)
        self.assertEqual(list(self.directory.glob("net*")), [])

    @staticmethod
    def floats(file):
        content = file.read_bytes()
        (length,) = struct.unpack("<H", content[8:10])
        return struct.unpack(f"<{(len(content) - 10 - length) // 4}f", content[10 + length:])

    def test_refusals(self):
        self.assertIn("use one of onnxruntime, openvino", self.export("caffe", code=2).err)
        self.assertIn("nothing was written", self.export("tensorrt", agreement=100, code=2).err)
        self.assertFalse(self.file.exists())
        self.train("real", policy__name="fp32", train__steps=2)
        job = self.octet("export", self.run_path("real"), "--for", "float", "--output", self.file, code=2)
        self.assertIn("policy fp32 has no integer network", job.err)
        job = self.octet("export", self.run_folder, "--for", "float", "--output", self.directory / "nowhere/f", code=2)
        self.assertIn("there is no folder", job.err)
        job = self.octet("export", self.run_folder, "--for", "float", "--output", self.file, ranks=2, code=2)
        self.assertIn("start it without mpirun", job.err)
        file = self.directory / "f.tflite"
        self.assertIn("name a file that ends with .onnx",
                      self.octet("export", self.run_folder, "--for", "float", "--output", file, code=2).err)
        self.octet("export", self.run_folder, "--for", "litert", "--output", file, "--unchecked")
        self.assertIn("an exported file is none", self.octet("predict", file, self.directory, code=2).err)

    def test_what_is_there_is_kept(self):
        """No output takes the place of a file of a run, and samples are those of one check."""
        link = self.directory / "link.html"
        link.symlink_to(self.run_folder / "config.yaml")
        for name in self.run_folder / "weights.safetensors", self.run_folder / "result.json", link:
            before = name.read_bytes()
            self.assertIn("is a file of a run", self.octet("predict", self.run_folder, "-", "--html", name, code=2).err)
            self.assertEqual(name.read_bytes(), before)
        samples = self.directory / "samples"
        samples.mkdir()
        (samples / "logits.npy").write_text("mine")
        self.assertIn("there is something already", self.export("float", "--check-with", samples, code=2).err)

    def test_without_images(self):
        """Weights that were given to somebody who has none of the data."""
        weights = self.directory / "given.safetensors"
        weights.write_bytes((self.run_folder / "weights.safetensors").read_bytes())
        file = self.directory / "f.onnx"
        job = self.octet("export", weights, "--for", "openvino", "--output", file, "--unchecked")
        self.assertNotIn("octet eval", job.out)
        self.assertTrue(file.exists())

    @unittest.skipIf(REASON, f"skipped: {REASON}")
    def test_onnxruntime(self):
        """Layer by layer the same codes, and the documented program names the same classes."""
        samples = self.directory / "samples"
        self.export("onnxruntime", "--check-with", samples)
        for script in "bench/peers/exported.py", "docs/run_exported.py":
            words = [self.file, samples] if script.startswith("bench") else [self.file, "--check", samples]
            ended = subprocess.run([sys.executable, ROOT / script, *words], capture_output=True, text=True)
            self.assertEqual(ended.returncode, 0, ended)
            self.assertGreaterEqual(int(re.search(r"(\d+) of 32 images have octet's class", ended.stdout)[1]), 29, ended)


class ExportDetector(Case):
    """RetinaNet as a whole: boxes are decoded and suppressed in the file."""

    RECIPE = ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml"
    SETTINGS = {"data.samples": 32, "data.image_size": 64, "data.batch": 8, "data.workers": 1, "train.epochs": 2,
                "train.lr": 0.01, "model.neck_channels": 16, "model.head_depth": 1, "detect.score": 0.005, "backend.threads": 1}

    def test_export(self):
        run, file, samples = self.directory / "run", self.directory / "detector.onnx", self.directory / "samples"
        self.octet("train", self.RECIPE, "--run", run, *with_settings(self.SETTINGS))
        job = self.octet("export", run, "--for", "onnxruntime", "--output", file, "--agreement", 0, "--check-with", samples)
        self.assertRegex(job.out, r"(?m)^the file  .*AP50.*\noctet eval  .*AP50")
        self.assertTrue((samples / "objects.npy").exists())
        self.assertIn("export it as ONNX", self.octet("export", run, "--for", "litert", "--output", self.directory / "f.tflite", code=2).err)
        if REASON:
            self.skipTest(REASON)
        code = f"""import numpy, onnxruntime
images, objects = (numpy.load({str(samples)!r} + name) for name in ("/images.npy", "/objects.npy"))
boxes, scores, labels = onnxruntime.InferenceSession({str(file)!r}).run(None, {{"images": images}})
assert boxes.shape == (*scores.shape, 4) and scores.shape == labels.shape == objects.shape[:2], boxes.shape
print(objects[:, 0, 4].max(), abs(scores[:, 0] - objects[:, 0, 4]).max(), len(images))"""
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended)
        best, apart, count = map(float, ended.stdout.split())
        self.assertEqual(count, 4)
        self.assertGreater(best, 0.005, ended)
        self.assertLess(apart, 0.05 * best, ended)


if __name__ == "__main__":
    main()
