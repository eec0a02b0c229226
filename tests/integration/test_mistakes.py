#!/usr/bin/env python3
"""Mistakes of users: the exit code shows that it is one, and one message says where, what, and how to fix it."""

import os
import pathlib
import struct

from harness import OCTET, RECIPE, Case, main, on_ranks, write_png

CIFAR_FILES = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
CIFAR_BYTES = 10000 * (1 + 3 * 32 * 32)


class Mistakes(Case):
    def mistake(self, code, what, fix, *settings, ranks=(1, 2)):
        """One message on one rank and on two, with `what` and `fix` (regular expressions), and the exit code.

        The mistake is a person's, so no place in octet's source is named.
        """
        for count in ranks:
            job = self.octet("train", RECIPE, "--run", self.run_path(f"ranks{count}"),
                             *(word for setting in settings for word in ("--set", setting)), ranks=count, code=code)
            self.assertEqual(job.err.count("octet: error"), 1, job)
            self.assertEqual(job.err.count("fix:"), 1, job)
            self.assertRegex(job.err, rf"(?s)octet: error.*{what}.*fix: .*{fix}", job)
            self.assertNotRegex(job.err, r"\.(cpp|h):\d+:", job)

    def image_folder(self):
        """Two classes of four images in train/ and val/, and the settings of a training on it."""
        root = self.directory / "images"
        for split in "train", "val":
            for label, shade in ("cat", 30), ("dog", 200):
                (root / split / label).mkdir(parents=True)
                for i in range(4):
                    write_png(root / split / label / f"{i}.png", 40, shade + i)
        return root, ("data.name=image_folder", f"data.root={root}", "data.samples=0", "data.image_size=32", "data.batch=4",
                      "model.classes=2")

    def test_bad_image(self):
        root, settings = self.image_folder()
        (root / "train/cat/1.png").write_bytes((root / "train/cat/1.png").read_bytes()[:40])
        self.mistake(2, "cat/1.png: ", "data.bad_images: skip", *settings)

    def test_class_without_images(self):
        root, settings = self.image_folder()
        (root / "train/bird").mkdir()
        self.mistake(2, "bird: the folder of a class holds no", "put images", *settings)

    def test_classes_differ_between_splits(self):
        root, settings = self.image_folder()
        (root / "val/bird").mkdir()
        write_png(root / "val/bird/1.png", 40, 90)
        self.mistake(2, "not in the training set: bird", "put images of these classes into both", *settings)

    def test_labels_of_another_data_set(self):
        for name in CIFAR_FILES:
            (self.directory / name).write_bytes(b"\x0a" + bytes(CIFAR_BYTES - 1))
        self.mistake(2, "record 0 has label 10", "CIFAR-100", "data.name=cifar10", "data.samples=0",
                     f"data.root={self.directory}", ranks=[1])

    def test_damaged_pack(self):
        for name in "train.pack", "val.pack":
            (self.directory / name).write_bytes(b"no pack")
        settings = "data.name=packed", "data.samples=0", f"data.root={self.directory}"
        self.mistake(2, "val.pack is damaged", "pack the images again", *settings)
        (self.directory / "val.pack").write_bytes(b"")
        self.mistake(2, "cannot read .*val.pack", "pack the images again", *settings)

    def test_damaged_weights(self):
        file = self.directory / "damaged.safetensors"
        for content, what in ((b"", "shorter than 8 bytes"), (struct.pack("<Q", 2) + b"{}" + b"\0", "end at byte 0 of 1"),
                              (struct.pack("<Q", 9) + b"no header", "no[t]? a JSON object")):
            file.write_bytes(content)
            self.mistake(2, what, "use another copy", f"model.initial_weights={file}", ranks=[1])
            job = self.octet("eval", RECIPE, "--weights", file, code=2)
            self.assertNotRegex(job.err, r"\.(cpp|h):\d+:", job)

    def test_images_too_small_for_the_network(self):
        self.mistake(2, "shrinks", "larger images", "data.name=synthetic", "data.samples=64", "data.image_size=70",
                     "model.name=inception_v3", ranks=[1])

    def test_unknown_key(self):
        self.mistake(2, "unknown key `train.lrate`; nearest: `train.lr`", "help keys", "train.lrate=0.1")

    def test_bad_value(self):
        self.mistake(2, "`train.lr` takes", "number", "train.lr=fast")

    def test_value_out_of_range(self):
        self.mistake(2, "`data.batch`", "integer 1 ..", "data.batch=0")

    def test_unknown_choice(self):
        self.mistake(2, "`storage`", r"f32 \| bf16 \| int8", "storage=f16")

    def test_no_data_root(self):
        self.mistake(2, "data.root", "set data.root", "data.name=cifar10")

    def test_missing_data(self):
        self.mistake(2, "data.root is `.*nowhere`: no such file or folder", "set data.root to", "data.name=cifar10", "data.samples=0", f"data.root={self.directory}/nowhere")

    def test_missing_image_folder(self):
        self.mistake(2, "data.root is `.*nowhere`: no such file or folder", "set data.root to a folder that holds train/",
                     "data.name=image_folder", "data.samples=0", f"data.root={self.directory}/nowhere")

    def test_missing_root_is_named_as_such(self):
        """By every source that reads files, and by every command that opens the data."""
        (self.directory / "file").write_text("")
        for name, more in (("cifar10", ()), ("image_folder", ()), ("packed", ()), ("coco", ("model.name=retinanet",)),
                           ("voc", ("model.name=retinanet",))):
            settings = [f"data.name={name}", "data.samples=0", "model.classes=2", *more]
            for root, what in ("nowhere", "no such file or folder"), ("file", "which is a file"):
                for command in ("train",) if name in ("cifar10", "packed") else ("train", "check"):
                    words = (word for setting in (*settings, f"data.root={self.directory}/{root}") for word in ("--set", setting))
                    err = self.octet(command, RECIPE, *words, code=2).err
                    self.assertRegex(err, rf"data\.root is `\S*/{root}`.*{what}\n  fix: set data\.root to")

    def test_truncated_cifar(self):
        for name in CIFAR_FILES:
            (self.directory / name).write_bytes(b"")
            os.truncate(self.directory / name, CIFAR_BYTES)
        os.truncate(self.directory / "data_batch_3.bin", CIFAR_BYTES - 1)
        self.mistake(2, f"data_batch_3.bin: {CIFAR_BYTES - 1} bytes", "unpack", "data.name=cifar10", "data.samples=0",
                     f"data.root={self.directory}")

    def test_batch_not_divisible(self):
        self.mistake(2, "data.batch 33 cannot be divided evenly among 2 ranks", "data.batch", "data.batch=33", ranks=[2])

    def test_batch_larger_than_data(self):
        self.mistake(2, "only 32 images", "at most 32", "data.samples=32")

    def test_wrong_classes(self):
        self.mistake(2, "model.classes is 7", "set model.classes to 10", "model.classes=7")

    def test_unknown_model(self):
        self.mistake(2, "resnet21", "resnet20", "model.name=resnet21")

    def test_keys_of_other_networks(self):
        """A key that the network does not read would be without effect."""
        for setting in ("model.backbone=resnet18", "model.initial_backbone=file", "model.norm=frozen",
                        "model.freeze_stages=2", "model.norm_epsilon=0", "model.neck_channels=8",
                        "model.head_depth=1", "model.finest_stride=4", "model.anchor_sizes=[8]",
                        "model.anchor_ratios=[1]", "detect.score=0.5", "detect.nms=0.6", "detect.detections=5"):
            key = setting.partition("=")[0]
            self.mistake(2, f"`{key}: .*` is set, but resnet20 does not read it", "model.name to one of: .*retinanet",
                         setting, ranks=[1])
        for setting in "model.head_channels=8", "rpn.nms=0.6", "roi.samples=5":
            self.mistake(2, f"`{setting.partition('=')[0]}: .*` is set", "model.name to one of: faster_rcnn", setting,
                         ranks=[1])
        self.mistake(2, "`model.dropout: 0.3` is set", "alexnet, inception_v3", "model.dropout=0.3")
        detector = "model.name=retinanet", "data.name=shapes_detection", "data.samples=64", "data.batch=32"
        for setting in "train.label_smoothing=0.1", "model.auxiliary_weight=1", "model.dropout=0.1":
            key = setting.partition("=")[0]
            self.mistake(2, f"`{key}: .*` is set, but retinanet does not read it", "model.name", *detector, setting,
                         ranks=[1])

    def test_frozen_layers_need_weights(self):
        for setting in "model.norm=frozen", "model.freeze_stages=1":
            self.mistake(2, "no weights to freeze", "model.initial_backbone", "model.name=retinanet", setting)

    def test_two_files_of_initial_weights(self):
        self.mistake(2, "model.initial_weights gives all", "keep one", "model.name=retinanet", "model.backbone=resnet18",
                     "data.name=shapes_detection", "data.samples=64", "model.initial_weights=a",
                     "model.initial_backbone=b", ranks=[1])

    def test_unknown_policy(self):
        self.mistake(2, "unified_int4", "unified_int8", "policy.name=unified_int4")

    def test_cuda_is_not_there(self):
        self.mistake(2, "CUDA|NVIDIA|GPU", "backend.device: cpu", "backend.device=cuda")

    def test_missing_configuration(self):
        job = self.octet("train", self.directory / "nowhere.yaml", ranks=2, code=2)
        self.assertEqual(job.err.count("octet: error"), 1, job)
        self.assertRegex(job.err, "nowhere.yaml(?s:.*)fix: check the path")

    def test_file_and_line_are_named(self):
        recipe = self.directory / "recipe.yaml"
        recipe.write_text("train:\n  epochs: 2\n  learning_rate: 0.1\n")
        job = self.octet("train", recipe, code=2)
        self.assertRegex(job.err, r"recipe\.yaml:3:3: .*learning_rate")

    def test_run_directory_cannot_be_made(self):
        (self.directory / "file").write_text("")
        for ranks in 1, 2:
            job = self.octet("train", RECIPE, "--run", self.directory / "file/run", ranks=ranks, code=2)
            self.assertEqual(job.err.count("octet: error"), 1, job)
            self.assertRegex(job.err, "cannot create (?s:.*)fix: .*--run")

    def test_one_rank_alone_fails(self):
        """Rank 1 has a wrong configuration: it reports the mistake, and the job ends."""
        command = [*on_ranks(2), "sh", "-c", f'exec "{OCTET}" plan "{RECIPE}" --set model.classes='
                   '$([ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo many || echo 10)']
        job = self.launch(command)
        self.expect(job, 2)
        self.assertIn("octet: error on rank 1", job.err)

    def test_ranks_must_be_configured_alike(self):
        """Ranks with different configurations would wait for each other forever. Settings of a host may differ."""
        of_rank = '$([ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo {} || echo {})'
        for key, one, zero, code in ("train.steps", 3, 4, 2), ("data.workers", 1, 2, 0):
            command = [*on_ranks(2), "sh", "-c", f'exec "{OCTET}" plan "{RECIPE}" --set {key}={of_rank.format(one, zero)}']
            job = self.launch(command)
            self.expect(job, code)
            if code:
                self.assertRegex(job.err, rf"octet: error on rank 1 on \S+: .*`{key}: {zero}`, this rank `{key}: {one}`")


    def test_ranks_must_run_the_same_build(self):
        """The copy differs in the linker's id of its content alone."""
        program, copy = pathlib.Path(OCTET).read_bytes(), self.directory / "octet"
        note = program.find(struct.pack("<III", 4, 20, 3) + b"GNU\0")
        self.assertGreater(note, 0)
        copy.write_bytes(program[:note + 16] + bytes(20) + program[note + 36:])
        copy.chmod(0o755)
        job = self.launch([*on_ranks(2), "sh", "-c", f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec "{copy}" "$@"; exec "{OCTET}" "$@"',
                           "sh", "plan", RECIPE])
        self.expect(job, 2)
        self.assertEqual(job.err.count("octet: error"), 1, job)
        self.assertRegex(job.err, r"rank 1 on \S+ runs .*build 0000.*, but rank 0 on \S+ runs .*\n.*fix: install the same build")


class NonFinite(Case):
    def test_stop_names_layer_and_step(self):
        for ranks in 1, 2:
            job = self.train(f"stop{ranks}", code=3, ranks=ranks, train__lr="1e6")
            self.assertEqual(job.err.count("octet: error"), 1, job)
            self.assertRegex(job.err, r"step \d+: loss or gradient is not finite; first at '(gradient of )?(conv|bn|layer|fc)[\w.]*'", job)
            self.assertRegex(job.err, "fix: start again with a lower train.lr")


if __name__ == "__main__":
    main()
