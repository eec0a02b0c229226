#!/usr/bin/env python3
"""What each command prints and how it ends; the progress of training on terminals of all kinds."""

import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest
from fcntl import ioctl

from harness import OCTET, RECIPE, ROOT, SECONDS, SMALL, Case, environment, main, on_ranks, with_settings, write_png

PHASES = {"data_wait", "forward", "backward_data", "backward_weight", "exchange", "update"}


class Commands(Case):
    def test_eval_reproduces_the_result(self):
        """With the same number of ranks: the scale of an activation depends on the batch of a rank."""
        for ranks in 1, 2:
            run = f"trained{ranks}"
            self.train(run, ranks=ranks, data__samples=1024, train__steps=40)
            result = self.result(run)
            self.assertGreater(result["top1"], 0)
            job = self.octet("eval", RECIPE, "--weights", self.run_path(run) / "weights.safetensors",
                             *with_settings({**SMALL, "data.samples": 1024}), ranks=ranks)
            found = re.findall(r"test loss (\S+)  top-1 (\S+) %  top-5 (\S+) %", job.out)
            self.assertEqual(len(found), 1, job)
            self.assertEqual(found[0][1:], (f"{100 * result['top1']:.2f}", f"{100 * result['top5']:.2f}"), job)
            self.assertAlmostEqual(float(found[0][0]), result["loss"], delta=1e-3)

    def write_shades(self, root, **classes):
        """A folder for each class, of gray images; the arguments are the shades of each."""
        for name, shades in classes.items():
            (root / name).mkdir(parents=True)
            for number, shade in enumerate(shades):
                write_png(root / name / f"{number}.png", 32, shade)

    def test_eval_says_what_it_judges(self):
        """A recipe that divides its folder judges a part of any folder; --images judges all of one."""
        trained, other, dark = (self.directory / name for name in ("trained", "other", "dark"))
        self.write_shades(trained, a=range(0, 40, 2), b=range(216, 256, 2))
        self.write_shades(other, a=range(1, 41, 2), b=range(217, 256, 2))
        self.write_shades(dark, b=range(1, 31, 2))  # of the second class alone, and all look like the first one
        self.train("run", data__name="image_folder", data__root=trained, data__image_size=32, data__holdout=0.25,
                   data__samples=0, model__classes=2, data__batch=8, train__steps=0, train__epochs=12)
        run = self.run_path("run")
        part = json.loads(self.octet("eval", run, "--json", "--set", f"data.root={other}").out)
        self.assertTrue(0 < part["images"] < 20, part)
        self.assertRegex(self.octet("eval", run, "--set", f"data.root={other}").out,
                         rf"^{part['images']} images judged: .* held out of 40")
        whole = json.loads(self.octet("eval", run, "--json", "--images", other).out)
        self.assertEqual((whole["images"], whole["top1"]), (40, 1))
        for ranks in 1, 2:
            wrong = json.loads(self.octet("eval", run, "--json", "--images", dark, ranks=ranks).out)
            self.assertEqual((wrong["images"], wrong["top1"]), (15, 0))
            integers = json.loads(self.octet("eval", run, "--integer", "--json", "--images", other, ranks=ranks).out)
            self.assertEqual((integers["images"], integers["top1"], integers["same_class"]), (40, 1, 40))
        self.assertIn("same class for 40 of 40 images", self.octet("eval", run, "--integer", "--images", other).out)
        # Weights that are not beside their recipe do not say where their data are, and these commands need none.
        alone = self.directory / "alone" / "given.safetensors"
        alone.parent.mkdir()
        alone.write_bytes((run / "weights.safetensors").read_bytes())
        self.assertEqual(json.loads(self.octet("eval", alone, "--json", "--images", other).out)["top1"], 1)
        self.assertEqual(len(self.octet("predict", alone, other).out.splitlines()), 40)
        self.octet("export", alone, "--for", "openvino", "--output", self.directory / "f.onnx", "--images", other)
        self.octet("export", alone, "--for", "litert", "--output", self.directory / "f.tflite", "--unchecked")
        self.octet("calibrate", alone, other, "--output", self.directory / "calibrated.safetensors")
        self.octet("predict", self.directory / "calibrated.safetensors", other)
        self.assertIn("image_folder needs `data.root`", self.octet("eval", alone, code=2).err)
        self.write_shades(dark, c=[1])
        empty, bad = self.directory / "empty", self.directory / "bad"
        for folder in empty, bad:
            (folder / "b").mkdir(parents=True)
        (bad / "b" / "0.png").write_bytes(b"")
        for folder, what in ((dark, "dark.* no classes of the network: c\n.*move them away: "), (empty, "empty.* hold no images\n"),
                             (dark / "b", "no folders of classes here. .* Found: 15 .png\n.*octet predict"),
                             (bad, "skipped .*b/0.png: .*empty\n(?s:.*)no image of the test set could be read\n")):
            err = self.octet("eval", run, "--images", folder, code=2).err
            self.assertRegex(err, what)
            self.assertNotIn("data.root", err)

    def test_eval_refuses_other_weights(self):
        self.train("trained", train__steps=1)
        job = self.octet("eval", RECIPE, "--weights", self.run_path("trained") / "weights.safetensors", "--set",
                         "model.name=mobilenet_v2", code=2)
        self.assertRegex(job.err, "has no tensor(?s:.*)fix: use weights of the same model")

    def test_result_is_complete(self):
        self.train("trained", train__steps=2)
        self.assertEqual(list(self.result("trained")), ["top1", "loss", "top5", "best", "epochs", "steps", "ranks", "rank_history", "images",
                                                        "images_per_epoch", "backend", "isa", "threads",
                                                        "policy", "images_per_second", "wall_seconds", "arena_bytes", "peak_memory_bytes",
                                                        "wire_bytes_per_step", "weights_sha256", "data", "commit"])

    def test_the_last_line_begins_with_the_loss(self):
        job = self.train("run", train__steps=2)
        self.assertRegex(job.err, r"done: test loss [0-9.]+, top-1 [0-9.]+ %, top-5 [0-9.]+ %; ")

    def test_epoch_means_are_recorded(self):
        self.assertIn("have not settled after 16 steps", self.train("every", train__lr=0.2).err)
        records = self.metrics("every")
        losses = [record["loss"] for record in records if record["kind"] == "train"]
        epochs = [record for record in records if record["kind"] == "epoch"]
        self.assertEqual([(e["step"], e["epoch"], e["steps"]) for e in epochs], [(8, 1, 8), (16, 2, 8)])
        for epoch, part in zip(epochs, (losses[:8], losses[8:])):
            self.assertAlmostEqual(epoch["loss"], sum(part) / 8, delta=1e-9)
        self.train("short", train__steps=3, train__log_every_steps=50)
        self.assertEqual([(record["kind"], record["step"]) for record in self.metrics("short")],
                         [("train", 1), ("train", 3), ("epoch", 3), ("test", 3)])

    def test_answers_are_kept(self):
        """The label and the answer of each test image, on any number of ranks; the last batch is not full."""
        settings = {"data__samples": 480, "data__batch": 32, "train__steps": 12, "comm__exchange": "exact",
                    "train__norm_group": 16}
        kept = []
        for ranks in 1, 2:
            run = f"kept{ranks}"
            self.train(run, ranks=ranks, **settings)
            answers = json.loads((self.run_path(run) / "evaluation.json").read_text())
            images = answers["images"]
            self.assertEqual({len(answers[key]) for key in ("label", "predicted", "probability")}, {images})
            right = sum(label == answer for label, answer in zip(answers["label"], answers["predicted"]))
            self.assertAlmostEqual(right / images, self.result(run)["top1"], delta=1e-9)
            self.assertTrue(all(0.1 <= p <= 1 for p in answers["probability"]))
            kept.append(answers)
        self.assertEqual(kept[0], kept[1])

    def test_plan_lists_nodes_and_total(self):
        for ranks in 1, 2:
            out = self.octet("plan", RECIPE, ranks=ranks).out
            for node in "conv1", "layer1.0.conv1", "layer3.2.conv2", "fc":
                self.assertEqual(len(re.findall(rf"(?m)^\s*{re.escape(node)}\s", out)), 1, f"{node} in\n{out}")
            self.assertRegex(out, rf"{64 // ranks} of 32x32 images per rank")
            self.assertRegex(out, r"272474 parameters; a rank takes \S+ MB: .* data set .* arena .*\n"
                              r"arena by storage: f32 \S+ MB, bf16 \S+ MB, int8 \S+ MB\n"
                              r"arena of evaluation: \S+ MB, in the memory of training's\nfits: ")
        gpu = self.octet("plan", RECIPE, "--set", "backend.device=cuda").out
        self.assertRegex(gpu, r"\nof these \S+ MB of parameters and arena in the GPU, .*\nthe rest fits: ")

    def test_bench_prints_one_object(self):
        for ranks in 1, 2:
            job = self.octet("bench", RECIPE, "--steps", "3", "--json", *with_settings(SMALL), ranks=ranks)
            measured = json.loads(job.out)
            self.assertEqual((measured["steps"], measured["ranks"], measured["batch"]), (3, ranks, 32))
            self.assertLessEqual(PHASES, set(measured["phases"]))
            self.assertAlmostEqual(measured["images_per_second"], 32e3 / measured["step_ms"], delta=1e-3)
            self.assertLess(sum(measured["phases"].values()), 3 * measured["step_ms_max"])
            self.assertGreater(measured["arena_bytes"], 0)
            self.assertGreater(measured["loader_processor_ms"], 0)
            self.assertGreater(measured["peak_resident_bytes"], ranks * measured["arena_bytes"])
        self.assertIn("img/s", self.octet("bench", RECIPE, "--steps", "2", *with_settings(SMALL)).out)

    def test_bench_tells_what_threads_do(self):
        bench = lambda *more: self.octet("bench", RECIPE, "--steps", "2", *more, *with_settings(SMALL),
                                         "--set", "backend.threads=2").out
        shares = json.loads(bench("--json"))["thread_shares"]
        self.assertEqual(set(shares), {"busy", "imbalance", "serial"})
        self.assertAlmostEqual(sum(shares.values()), 1)
        for share in shares.values(): self.assertGreater(share, 0)
        self.assertRegex(bench(), r"\nits threads work \S+ % of the time, wait \S+ % for the busiest; ")
        # oneDNN has threads of its own
        self.assertIsNone(json.loads(bench("--json", "--set", "policy.name=fp32"))["thread_shares"])

    def test_plan_of_threads(self):
        plan = lambda threads, *more: self.octet("plan", RECIPE, "--threads", str(threads), *with_settings(SMALL), *more)
        many = plan(64).out
        self.assertRegex(many, r"\nlayer3.2.conv2 backward_weight +\d+ +\d+\.\d{3} ")
        self.assertRegex(many, r"^64 threads, where this process may use \d+: a step of 32 images takes \S+ ms,\n"
                               r"\S+ times as fast as one thread")
        self.assertRegex(many, r"\nupdate +\d+ ")
        self.assertRegex(plan(1).out, r"^1 thread: a step of 32 images takes \S+ ms,\n1\.0 times as fast")
        refused = self.octet("plan", RECIPE, "--threads", "4", "--set", "policy.name=fp32", code=2)
        self.assertIn("computes partly in loops of a library", refused.err)

    def test_bench_tells_steps_that_search_clips(self):
        bench = lambda period, *more: self.octet("bench", RECIPE, "--steps", "3", *more, *with_settings(SMALL),
                                                 "--set", f"policy.clip.period={period}").out
        every = json.loads(bench(1, "--json"))
        self.assertEqual((every["steps_searching_clips"], every["step_ms_others"]), (3, None))
        self.assertEqual(every["step_ms_searching_clips"], every["step_ms"])
        self.assertRegex(bench(1), r"\n  3 of the steps search clips: \S+ ms median\n")
        second = json.loads(bench(2, "--json"))  # the middle one of three is due
        self.assertGreaterEqual(second["steps_searching_clips"], 1)
        fp32 = json.loads(self.octet("bench", RECIPE, "--steps", "3", "--json", *with_settings(SMALL),
                                     "--set", "policy.name=fp32").out)
        self.assertEqual((fp32["steps_searching_clips"], fp32["step_ms_searching_clips"]), (0, None))
        self.assertEqual(fp32["step_ms_others"], fp32["step_ms"])

    def test_bench_times_integer_networks(self):
        measured = json.loads(self.octet("bench", RECIPE, "--deployed", "--steps", "2", "--json", *with_settings(SMALL)).out)
        self.assertEqual((measured["network"], measured["answers"], measured["batch"]), ("resnet20", 2, 32))
        self.assertAlmostEqual(measured["images_per_second"], 32e3 / measured["ms"], delta=1e-3)
        self.assertAlmostEqual(sum(layer["share"] for layer in measured["layers"]), 1)
        self.assertLessEqual({"input", "conv1", "layer3.2.conv2", "avgpool", "fc"}, {layer["name"] for layer in measured["layers"]})
        self.assertIn("images/s", self.octet("bench", RECIPE, "--deployed", "--steps", "1", *with_settings(SMALL)).out)
        self.assertIn("not a network", self.octet("bench", "kernels", "--deployed", code=2).err)

    def test_bench_kernels(self):
        measured = json.loads(self.octet("bench", "kernels", "--json", "--filter", "resnet20/64x64@8/forward").out)
        self.assertEqual([kernel["kernel"] for kernel in measured], ["resnet20/64x64@8/forward"])
        self.octet("bench", "kernels", "--filter", "(", code=2)
        self.assertRegex(self.octet("bench", "kernels", "--filter", "conv.*", code=2).err,
                         r"none of \d\d+ kernels matches --filter\n  fix: names are such as detection/\S+, .*resnet")
        layer = json.loads(self.octet("bench", "kernels", "--json", "--filter", "resnet20/16x16@32/").out)
        self.assertEqual(len(layer), 5, "each kernel of the layer, after those before it")
        self.assertIn("scalar", self.octet("bench", "kernels", "--filter", "64x64@8/affine_forward", "--set", "backend.isa=scalar").out)

    def test_bench_peer_finds_the_comparison(self):
        """Without PyTorch: mistakes are reported before anything is measured."""
        self.assertIn("no network vgg16: choose from resnet20", self.octet("bench", "--peer", "vgg16", code=2).err)
        self.assertIn("bench/peers/compare.py", self.octet("bench", "--peer", "--set", "seed=2", code=2).err)

    def test_make_writes_a_data_set(self):
        made = self.directory / "made"
        job = self.octet("make", "shapes", made, "--samples", "16", "--image-size", "64")
        self.assertIn("18 images", job.out)
        self.assertEqual(len(list((made / "train2017").glob("*.png"))), 16)
        annotations = json.loads((made / "annotations/instances_val2017.json").read_text())
        self.assertEqual([image["file_name"] for image in annotations["images"]],
                         sorted(path.name for path in (made / "val2017").iterdir()))
        self.assertRegex(self.octet("make", "shapes", made, code=2).err, "holds files already(?s:.*)fix: choose")
        self.octet("make", "shapes", self.directory / "other", "--image-size", "100", code=2)
        self.octet("make", "photographs", self.directory / "other", code=2)

    def test_draw_writes_pictures(self):
        recipe = self.directory / "detection.yaml"
        recipe.write_text("data: {name: shapes_detection, samples: 16, batch: 4}")
        drawn = self.directory / "drawn"
        for words in (), ("--split", "train", "--augmented"):
            self.assertIn("2 pictures", self.octet("draw", recipe, "--truth", "--output", drawn, "--count", "2", *words).out)
        self.assertEqual(sorted(path.name for path in drawn.iterdir()),
                         ["000000-000000000001.png", "000001-000000000002.png", "000008-000000000009.png"])
        self.octet("draw", recipe, "--output", drawn, code=2)
        self.assertIn("no boxes to draw", self.octet("draw", RECIPE, "--truth", "--output", drawn, code=2).err)
        self.assertIn("resnet20 is a network for classification",
                      self.octet("train", recipe, "--run", self.run_path("trained"), code=2).err)

    def test_version(self):
        self.assertRegex(self.octet("--version").out,
                         r"^octet \d\S* \(commit \S+\)\n(commit: .* OCTET_COMMIT.*\n)?backends: cpu( cuda)?\n"
                         r"instruction sets: scalar.*\nused here: \w+\ncompiler: \w+ \d.*, \w+\n"
                         r"MPI: Open MPI v\d\S*\nfp32 on CPUs: oneDNN\n(GPU libraries: CUDA \d.*\n)?$")

    def test_help_keys(self):
        lines = self.octet("help", "keys").out.splitlines()
        (self.directory / "study.yaml").write_text(f"base: {RECIPE}\ngrid: {{p: {{a: {{train.lr: 1}}}}}}\n")
        for words in ["help", "keys"], ["study", self.directory / "study.yaml", "--list"]:
            with open("/dev/full", "wb") as full:
                ended = subprocess.run([OCTET, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                       env=environment(), cwd=self.directory, check=False)
            self.assertEqual(ended.returncode, 74)
            self.assertRegex(ended.stderr, r"standard output cannot be written\n  fix: ")
        self.assertGreater(len(lines), 40)
        for key in "seed", "policy.clip.period", "data.batch", "checkpoint.keep":
            self.assertEqual(sum(line.startswith(key + " ") for line in lines), 1, key)

    def test_exit_codes_of_usage(self):
        for words, code in (("--help", 0), ("help", 0), ("train --help", 0), ("", 2), ("trane", 2), ("help train", 0), ("help trane", 2), ("train", 2),
                            ("eval " + RECIPE, 2), ("bench kernels --steps 0", 2), ("train a b c", 2)):
            with self.subTest(words):
                self.octet(*words.split(), code=code)


    def test_mistakes_in_the_command_line(self):
        for words, expected in (("trian x.yaml", r"octet: error: there is no command `trian`\n  fix: use `octet train`\n"),
                                ("quantize x", r"octet: error: there is no command `quantize`\n  fix: use one of: train, eval, .*help\n"),
                                ("train a b c", r"octet: error: octet train does not take `b c`\n  fix: `octet train --help` .*\n"),
                                ("train --hlep", r"octet: error: octet train does not take `--hlep`\n  fix: `octet train --help` .*\n"),
                                ("--fast", r"octet: error: octet does not take `--fast`\n  fix: `octet --help` .*\n"),
                                ("train", r"octet: error: config is required\n  fix: `octet train --help` .*\n"),
                                ("train --run", r"octet: error: --run: .*\n  fix: `octet train --help` .*\n"),
                                ("train nowhere.yaml", r"octet: error: 'nowhere.yaml' does not exist\n  fix: check the path\n"),
                                ("help trane", r"octet: error: there is no help on `trane`\n  fix: .*octet help COMMAND.*\n")):
            with self.subTest(words):
                self.assertRegex(self.octet(*words.split(), code=2).err, f"^{expected}$")
        self.assertRegex(self.octet("help", "train").out, r"Usage: octet train .*config(?s:.*)--resume")
        for command in "train", "predict", "help":
            self.assertEqual(re.findall(r"Usage: octet (\w+) (\w*)", self.octet("help", command).out + " "), [(command, "")])

    def test_help_on_a_key(self):
        """A key, a section of keys, or the last word of a key."""
        for topic, keys in (("train.lr", ["train.lr"]), ("policy.bits", ["policy.bits.weight", "policy.bits.activation", "policy.bits.gradient"]),
                            ("epochs", ["train.epochs"]), ("seed", ["seed"])):
            out = self.octet("help", topic).out
            self.assertEqual(re.findall(r"(?m)^([\w.]+): ", out), keys)
            self.assertEqual(out.count("  default: "), len(keys))
            self.assertEqual(out.count("  values: "), len(keys))
        self.assertRegex(self.octet("help", "model.name").out, r"values: resnet20, .*inception_v3")
        self.assertIn("nearest: `train.lr`", self.octet("help", "train.lrr", code=2).err)
        self.assertIn("nearest: `epochs`", self.octet("help", "epoch", code=2).err)

    def test_swapped_arguments_get_a_hint(self):
        self.train("run", train__steps=1)
        run, best = self.run_path("run"), self.run_path("run") / "best.safetensors"
        image, folder, study = self.directory / "a.png", self.directory / "images", self.directory / "study.yaml"
        write_png(image, 32, 100)
        (folder / "cat").mkdir(parents=True)
        study.write_text(f"base: {RECIPE}\ngrid: {{policy: {{fp32: {{policy.name: fp32}}}}}}\n")
        for words, what, fix in (
                (["train", run], "is the directory of a run", "config.yaml --run .* --resume"),
                (["train", folder], "cannot be read as YAML: it is a folder", "octet new"),
                (["train", best], "is a file of weights", "--weights"),
                (["plan", image], "is an image", "recipe"),
                (["train", study], "study.yaml: a study, which has a `grid`", "octet study"),
                (["predict", image, run], "is an image, where a run", "network first"),
                (["predict", folder, run], "holds neither best.safetensors", "images come last"),
                (["predict", self.directory / "nowhere", image], "nowhere' does not exist", "check the path"),
                (["eval", RECIPE, best], "does not take", "--weights .*best.safetensors"),
                (["eval", RECIPE, "--weights", run], "cannot be read as weights: it is the directory of a run", "best.safetensors"),
                (["train", RECIPE, "train.lr=1"], "does not take `train.lr=1`", "write `--set train.lr=1`"),
                (["train", RECIPE, run], "does not take", "write `--run "),
                (["new", RECIPE], "is a recipe, not a folder of images", "folder of images"),
                (["new", self.directory / "nowhere"], "is no file or folder", "folder of images"),
                (["status", RECIPE], "is a recipe, not the directory of a run", "directory of a run"),
                (["inspect", best], "is a file of weights, not the directory", "directory of a run"),
                (["inspect", run, "--output", self.directory / "none" / "page.html"], "there is no folder .*none", "make the folder"),
                (["predict", run, image, "--json", self.directory / "none" / "a.json"], "--json .*: there is no folder", "make the folder"),
                (["new", folder, "--output", folder], "exists already", "another file")):
            with self.subTest(words):
                err = self.octet(*words, code=2).err
                self.assertRegex(err, rf"(?s)^octet: error: [^\n]*{what}[^\n]*\n  fix: .*{fix}")
                self.assertNotRegex(err, r"\.(cpp|h):\d+:")


class Wire(Case):
    def test_int8_exchange_is_a_quarter(self):
        sent = {}
        for kind in "fp32", "int8":
            self.train(kind, ranks=2, train__steps=4, comm__exchange=kind)
            sent[kind] = self.result(kind)["wire_bytes_per_step"]
        self.assertGreater(sent["int8"], 0)
        self.assertLessEqual(sent["int8"], 0.30 * sent["fp32"], sent)


def on_terminal(command, columns, code=0, **variables):
    """The output of a command on a terminal with `columns` columns. It must end with this code."""
    try:
        outer, inner = pty.openpty()
    except OSError as error:  # a container without /dev/pts
        raise unittest.SkipTest(f"no pseudo-terminal to be had: {error}")
    ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([str(word) for word in command], stdin=inner, stdout=inner, stderr=inner,
                               env={**environment(), "TERM": "xterm", **variables})
    os.close(inner)
    text = b""
    while True:
        try:
            text += os.read(outer, 65536)
        except OSError:  # the last writer has closed it
            break
    os.close(outer)
    if process.wait(SECONDS) != code:
        raise AssertionError(f"exit code {process.returncode}:\n{text.decode()}")
    return text.decode().replace("\r\n", "\n")


class TextOnTerminal(Case):
    """Texts fit into 80 columns, and no word is broken. What goes elsewhere has lines of any length."""

    def expect_folded(self, *words, code=0):
        shown = on_terminal([OCTET, *words], 80, code=code)
        for line in shown.split("\n"):
            line = re.sub(r"^.*\r|\033\[[0-9;]*[mK]", "", line)
            self.assertTrue(len(line) <= 80 or " " not in line.strip(), f"{words}: {len(line)} columns: {line}")
        return shown

    def test_help(self):
        for words in ["help"], ["help", "keys"], ["--help"], ["help", "eval"], ["eval", "--help"], ["help", "train."], []:
            with self.subTest(words=words):
                code = 0 if words else 2
                shown, plain = self.expect_folded(*words, code=code), self.octet(*words, code=code).out
                if words != ["help", "keys"]:  # which has another form there
                    self.assertEqual(shown.split(), plain.split())
        shown = on_terminal([OCTET, "help", "keys"], 80)
        self.assertIn("train.lr: learning rate after the warmup\n  default 0.1; number 0 .. 1e+06\n", shown)
        self.assertGreater(max(map(len, self.octet("help", "keys").out.split("\n"))), 100)

    def test_a_command_and_its_section_of_keys(self):
        self.assertIn("`octet help train.`", self.octet("help", "train").out)
        keys = self.octet("help", "train.").out
        self.assertRegex(keys, r"(?m)^train\.lr: .*\n  default: 0\.1\n  values: number")
        self.assertNotRegex(keys, r"(?m)^(?!train\.)[a-z]")
        self.assertNotIn("octet help eval.", self.octet("help", "eval").out)
        for words in ["help", "trian"], ["trian"], ["help", "trian."]:
            self.assertIn("train", self.octet(*words, code=2).err)
        self.assertIn("nearest: `lr_scale`", self.octet("help", "lr_scal", code=2).err)

    def test_tables_and_messages(self):
        self.expect_folded("plan", RECIPE)
        self.expect_folded("plan", ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml")
        run = self.run_path("folded")
        trained = self.expect_folded("train", RECIPE, "--run", run, *with_settings({**SMALL, "train.epochs": 2}))
        last = trained.rstrip().split("octet: ")[-1]
        said = " ".join(last.split())
        self.assertRegex(said, rf"best evaluation: epoch \d, top-1 [\d.]+ %: {run}/best.safetensors; "
                               rf"next: octet predict {run} IMAGES, octet inspect {run}$")
        self.expect_folded("eval", run)
        self.expect_folded("status", run)
        self.expect_folded("train", RECIPE, "--set", "train.lrr=1", code=2)
        self.expect_folded("check", ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml", code=2)

    def test_status_of_many_columns(self):
        job = self.start("shown", train__steps=100000, train__epochs=100000)
        self.wait_for_step(job, "shown", 2)
        shown = self.expect_folded("status", self.run_path("shown"))
        self.assertEqual(len(re.findall(r"(?m)^rank ", shown)), shown.count("\n   0  "), shown)
        self.assertGreater(shown.count("\n   0  "), 1, "the table is continued")
        self.assertEqual(self.octet("status", self.run_path("shown")).out.count("\n   0  "), 1)


class ProgressOnTerminal(Case):
    def setUp(self):
        super().setUp()
        self.words = ["train", RECIPE, "--run", self.run_path("shown"), *with_settings(SMALL)]

    def expect_live(self, shown, columns):
        drawn = re.findall(r"\r\033\[K(epoch [^\r\n]*)", shown)
        self.assertGreater(len(drawn), 1, shown)
        self.assertRegex(drawn[0], r"^epoch 1/2  (\[[=> ]{4,10}\]  )?1/8  loss", shown)
        self.assertNotRegex(shown, "epoch 1/2  step")
        for line in (line for line in drawn if ":" not in line.partition("ETA")[0]):  # not the line of an epoch
            self.assertRegex(line, r"^epoch [12]/2  (\[[=> ]{4,10}\]  )?\d/8  loss \d+\.\d{3}(  top-1 \d+\.\d %)?(  \d+ img/s)?"
                             r"(  data \d+\.\d %)?(  ETA \d:\d\d)?$", shown)
        for line in re.sub(r"\r?\033\[K", "\n", shown).split("\n"):
            if line.startswith(("epoch ", "  train", "  test", "  best")):
                self.assertLess(len(line), columns, shown)

    def expect_plain(self, shown):
        self.assertRegex(shown, r"(?m)^epoch 1/2  step 2/8  loss")
        self.assertNotRegex(shown, r"epoch [^\n]*\r")

    def test_live_line_on_terminal(self):
        self.expect_live(on_terminal([OCTET, *self.words], 50), 50)
        slower = with_settings({"data.batch": 128, "data.samples": 1024})  # steps that the line, drawn ten times a second, shows
        wide = on_terminal([OCTET, *self.words[:2], "--run", self.run_path("wide"), *self.words[4:], *slower], 100)
        self.expect_live(wide, 100)
        self.assertRegex(wide, r"\]  \d/8  loss .*  top-1 .* img/s  data .* %  ETA ")

    def test_plain_lines_without_width(self):
        self.expect_plain(on_terminal([OCTET, *self.words], 0))

    def test_plain_lines_in_file(self):
        job = self.launch([OCTET, *self.words])
        self.expect(job, 0)
        self.expect_plain(job.out)

    def test_plain_lines_from_mpirun_to_file(self):
        """Open MPI gives the ranks a terminal without a width."""
        job = self.launch([*on_ranks(2), OCTET, *self.words])
        self.expect(job, 0)
        self.expect_plain(job.out)

    def test_width_from_environment(self):
        job = self.launch([*on_ranks(2, "-x", "OCTET_COLUMNS=40"), OCTET, *self.words])
        self.expect(job, 0)
        self.expect_live(job.out, 40)

    def test_launch_script_needs_the_hosts_it_is_told_of(self):
        job = self.launch([ROOT / "launch/mpirun.sh", "--hostfile", "", "--dry-run", "train"])
        self.expect(job, 2)
        self.assertIn("usage: launch/mpirun.sh", job.err)

    def test_launch_script_hands_on_its_width(self):
        script = [ROOT / "launch/mpirun.sh"]
        self.assertIn("-x OCTET_COLUMNS=50 ", on_terminal([*script, "--dry-run", "train"], 50, OCTET=OCTET))
        self.assertNotIn("OCTET_COLUMNS", on_terminal([*script, "--dry-run", "train"], 0, OCTET=OCTET))
        self.expect_live(on_terminal([*script, *self.words], 50, OCTET=OCTET), 50)


if __name__ == "__main__":
    main()
