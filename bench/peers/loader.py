#!/usr/bin/env python3
"""octet's loader of image folders beside torchvision's: images per second of reading, decoding, random crop, flip, normalization.

usage: loader.py DIR [--copies N] [--rounds N] [--workers N] [--program bench_loader]
example: ninja -C build/release octet bench_loader && venv/bin/python bench/peers/loader.py ~/imagenet-samples

DIR holds train/CLASS/*.JPEG. It is seen --copies times over, by links, so that a few hundred files make an epoch; they stay in
the page cache, so that decoding is what is measured. The same images packed (`octet pack`) are a third contestant. All run in turn,
a process each, for some seconds; medians count. Needs torchvision and pillow.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = "configs/imagenet_resnet18_unified_int8.yaml"
BATCH, SECONDS = 50, 8


def torchvision(root, workers):
    import torch
    from torchvision import datasets, transforms
    torch.set_num_threads(1)
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    images = datasets.ImageFolder(f"{root}/train", transform)
    loader = torch.utils.data.DataLoader(images, batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=True)
    for _ in loader:  # until workers run and files are in the page cache
        pass
    seen, start = 0, time.time()
    while time.time() - start < SECONDS:
        for pixels, _ in loader:
            seen += len(pixels)
    print(seen / (time.time() - start))


def linked(source, to, copies):
    """The folder `to`: the classes of source/train, every image `copies` times; one of each for val. Returns the classes' number."""
    for folder in sorted(path for path in (source / "train").iterdir() if path.is_dir()):
        for split, count in ("train", copies), ("val", 1):
            (to / split / folder.name).mkdir(parents=True)
            for file in folder.iterdir():
                for copy in range(count):
                    (to / split / folder.name / f"{copy}_{file.name}").symlink_to(file.resolve())
    return len(list((to / "train").iterdir()))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"loader.py: exit code {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--program", default=str(ROOT / "build/release/tests/bench/bench_loader"))
    parser.add_argument("--octet", default=str(ROOT / "build/release/octet"), help="packs")
    parser.add_argument("--peer", action="store_true", help="torchvision alone, on DIR as it is (what each round starts)")
    options = parser.parse_args()
    if options.peer:
        return torchvision(options.root, options.workers)
    if not (options.root / "train").is_dir():
        parser.error(f"{options.root} holds no folder train")

    with tempfile.TemporaryDirectory() as scratch:
        images, packed = pathlib.Path(scratch) / "images", pathlib.Path(scratch) / "packed"
        settings = [f"model.classes={linked(options.root, images, options.copies)}", f"data.batch={BATCH}",
                    f"data.workers={options.workers}"]
        pack = [options.octet, "pack", CONFIG, "--output", packed, "--set", f"data.root={images}"]
        run(pack + [word for setting in settings for word in ("--set", setting)])
        programs = {
            "octet": [options.program, CONFIG, *settings, f"data.root={images}"],
            "octet, packed": [options.program, CONFIG, *settings, "data.name=packed", f"data.root={packed}"],
            "torchvision": [sys.executable, __file__, images, "--peer", "--workers", str(options.workers)],
        }
        rates = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, command in programs.items():
                rates[name].append(float(re.search(r"(?:: )?([\d.]+)(?: images per second|$)", run(command)).group(1)))
            print(", ".join(f"{name} {values[-1]:.0f}" for name, values in rates.items()), file=sys.stderr)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(json.dumps({"workers": options.workers, "images_per_second": medians, "rounds": rates,
                      "octet_over_torchvision": medians["octet"] / medians["torchvision"],
                      "packed_over_octet": medians["octet, packed"] / medians["octet"]}, indent=1))


if __name__ == "__main__":
    main()
