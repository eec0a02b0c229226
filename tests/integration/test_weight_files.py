#!/usr/bin/env python3
"""launch/convert-weights.py and launch/get-weights.sh on files that PyTorch, timm and Lightning have written."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import zipfile

from harness import Case, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "tests" / "golden" / "pytorch"
CONVERT = ROOT / "launch" / "convert-weights.py"
EXPECTED = json.loads((FILES / "expected.json").read_text())


def read_tensors(path):
    """Names with types, shapes and values of a safetensors file."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header, data, tensors = json.loads(content[8:8 + size]), content[8 + size:], {}
    for name, of in header.items():
        part = data[slice(*of["data_offsets"])]
        if of["dtype"] == "BF16":
            values = [struct.unpack("<f", b"\0\0" + part[i:i + 2])[0] for i in range(0, len(part), 2)]
        else:
            letter = {"F32": "f", "F16": "e", "I64": "q"}[of["dtype"]]
            values = list(struct.unpack(f"<{len(part) // struct.calcsize(letter)}{letter}", part))
        tensors[name] = (of["dtype"], of["shape"], values)
    return tensors


class WeightFiles(Case):
    def convert(self, source, *words, code=0):
        self.output = self.directory / "out.safetensors"
        self.output.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, CONVERT, source, self.output, *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(self.output.exists(), code == 0)
        self.assertEqual([path.name for path in self.directory.glob("*.part")], [])
        return done.stdout + done.stderr

    def expect_values(self, tensors, dtype="F32", beginning="", tolerance=0.0):
        self.assertEqual({name: values for name, (_, _, values) in tensors.items()}.keys(),
                         {beginning + name for name in EXPECTED})
        self.assertEqual(tensors[beginning + "conv1.weight"][:2], (dtype, [4, 3, 3, 3]))
        self.assertEqual(tensors[beginning + "bn1.num_batches_tracked"][:2], ("I64", []))
        for name, expected in EXPECTED.items():
            for value, wanted in zip(tensors[beginning + name][2], expected, strict=True):
                self.assertLessEqual(abs(value - wanted), tolerance * abs(wanted), name)

    def test_every_form_gives_the_same_values(self):
        for name, words, dtype, beginning, tolerance in (
                ("plain.pth", [], "F32", "", 0), ("legacy.pth", [], "F32", "", 0),
                ("channels_last.pth", [], "F32", "", 0), ("timm.pth.tar", [], "F16", "", 2**-11),
                ("timm.pth.tar", ["--from", "state_dict_ema"], "F32", "", 0),
                ("torchvision.pth", [], "BF16", "", 2**-8), ("torchvision.pth", ["--from", "model_ema"], "F32", "", 0),
                ("lightning.ckpt", [], "F32", "model.", 0)):
            with self.subTest(file=name, words=words):
                said = self.convert(FILES / name, *words)
                self.expect_values(read_tensors(self.output), dtype, beginning, tolerance)
                self.assertEqual("also holds state_dict_ema" in said, name == "timm.pth.tar" and not words)

    def test_what_cannot_be_converted(self):
        damaged = self.directory / "damaged.pth"
        damaged.write_bytes((FILES / "legacy.pth").read_bytes()[:-40])
        text = self.directory / "text.pth"
        text.write_text("weights\n")
        archive = self.directory / "archive.pth"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("a.txt", "a")
        for path, words, message in ((FILES / "whole.pth", [], "a whole network as a program"),
                                     (FILES / "timm.pth.tar", ["--from", "ema"], "there are: state_dict, state_dict_"),
                                     (damaged, [], "ends too early"), (text, [], "cannot be read"),
                                     (archive, [], "without data.pkl"), (self.directory / "none.pth", [], "No such")):
            with self.subTest(file=path.name):
                self.assertIn(message, self.convert(path, *words, code=1))

    def test_nothing_of_a_file_runs(self):
        """A pickle that would write a file if it ran."""
        mark = self.directory / "mark"

        class Program:
            def __reduce__(self):
                return os.mkdir, (str(mark),)

        import pickle
        path = self.directory / "program.pth"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("program/data.pkl", pickle.dumps({"state_dict": Program()}))
        self.assertIn("no weights were found", self.convert(path, code=1))
        self.assertFalse(mark.exists())

    def get(self, *words, code, **variables):
        done = subprocess.run([ROOT / "launch" / "get-weights.sh", *words], capture_output=True, text=True,
                              cwd=self.directory, env={**os.environ, "TORCH_HOME": str(self.directory), **variables})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_get_weights_compares_the_digest(self):
        cache = self.directory / "hub" / "checkpoints"
        cache.mkdir(parents=True)
        (cache / "resnet18-f37072fd.pth").write_bytes((FILES / "plain.pth").read_bytes())
        self.assertIn("is not the published file", self.get("resnet18", code=1))
        self.assertFalse((self.directory / "resnet18.safetensors").exists())
        self.assertIn("there is no network `resnet19`", self.get("resnet19", code=2))
        self.assertIn("exists already", self.get("resnet18", str(cache), code=1))


if __name__ == "__main__":
    main()
