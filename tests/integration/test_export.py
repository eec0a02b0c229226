#!/usr/bin/env python3
"""octet export: files are checked before they are written, hold what the documents say, and run in other programs."""

import json
import pathlib
import struct
import subprocess
import tempfile
import unittest

from harness import OCTET, RECIPE, SMALL, Case, main, with_settings

try:
    import numpy
    import onnxruntime
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
        content = (self.directory / "samples/images.npy").read_bytes()
        (length,) = struct.unpack("<H", content[8:10])
        self.assertIn(b"'shape': (32, 3, 32, 32)", content[:10 + length])
        values = struct.unpack(f"<{32 * 3 * 32 * 32}f", content[10 + length:])
        self.assertTrue(all(0 <= value <= 1 and abs(255 * value - round(255 * value)) < 1e-4 for value in values))

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
        self.export("onnxruntime", "--check-with", self.directory / "samples")
        session = onnxruntime.InferenceSession(str(self.file))
        self.assertEqual(len(json.loads(session.get_modelmeta().custom_metadata_map["classes"])), 10)
        images, expected = (numpy.load(self.directory / f"samples/{name}.npy") for name in ("images", "logits"))
        logits = session.run(None, {"images": images})[0]
        self.assertGreaterEqual((logits.argmax(1) == expected.argmax(1)).mean(), 0.9)
        self.assertLess(abs(logits - expected).max(), 0.1 * abs(expected).max())


if __name__ == "__main__":
    main()
