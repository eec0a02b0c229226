#!/usr/bin/env python3
"""octet's answers beside torchvision's and timm's, with the same weights and the same image files.

usage: logits.py NETWORK IMAGES... [--octet PROGRAM] [--weights FILE.pth] [--half]

Makes random weights with random statistics of norms, or reads those of FILE, writes them as safetensors, in F16 with
--half, and runs `octet predict --json - --logits` in fp32 on the images. Prints the largest difference of a logit, as a
share of the largest logit, and the mean cross-entropy of both for the label 0. Then octet trains a step with a learning
rate of 0, and its file is loaded into the network again with strict=True.

Networks: those of torchvision, and timm's mobilenetv2_100. Needs: pip install torch torchvision safetensors timm
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
from PIL import Image, ImageOps
from safetensors.torch import load_file, save_file

OTHER_NAMES = {"mobilenetv2_100": "mobilenet_v2"}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def network_of(name):
    torch.manual_seed(1)
    if name in OTHER_NAMES:
        import timm
        model = timm.create_model(name, pretrained=False)
    elif name == "inception_v3":
        model = torchvision.models.inception_v3(weights=None, init_weights=True, transform_input=False)
    else:
        model = torchvision.models.get_model(name, weights=None)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.1)
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.5, 2)
    return model


def pixels_of(files, resize, crop):
    """What torchvision's reference evaluation reads."""
    transform = torchvision.transforms.Compose([
        torchvision.transforms.Resize(resize), torchvision.transforms.CenterCrop(crop), torchvision.transforms.ToTensor(),
        torchvision.transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    return torch.stack([transform(ImageOps.exif_transpose(Image.open(file)).convert("RGB")) for file in files])


def run(*words):
    job = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if job.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{job.stderr}")
    return job.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("images", nargs="+", type=pathlib.Path)
    parser.add_argument("--octet", default=ROOT / "build/release/octet")
    parser.add_argument("--weights")
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    files = sorted(file for path in options.images for file in (path.rglob("*") if path.is_dir() else [path])
                   if file.suffix.lower() in (".jpg", ".jpeg", ".png"))
    model = network_of(options.network)
    if options.weights:
        model.load_state_dict(torch.load(options.weights, weights_only=True))
    if options.half:
        model.half().float()
    model.eval()
    resize, crop = (342, 299) if options.network == "inception_v3" else (256, 224)
    images = pixels_of(files, resize, crop)
    with torch.no_grad():
        expected = torch.cat([model(part) for part in images.split(16)])
    own = OTHER_NAMES.get(options.network, options.network)
    with tempfile.TemporaryDirectory() as directory:
        weights = pathlib.Path(directory) / "weights.safetensors"
        state = {name: tensor.half() if options.half and tensor.is_floating_point() else tensor
                 for name, tensor in model.state_dict().items()}
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, weights)
        recipe = pathlib.Path(directory) / "recipe.yaml"
        recipe.write_text(f"model: {{name: {own}, classes: 1000}}\npolicy: {{name: fp32}}\n"
                          f"data: {{name: image_folder, root: {directory}, image_size: {crop}, batch: 8}}\n")
        answers = [json.loads(line) for line in run(options.octet, "predict", recipe, *files, "--weights", weights, "--json",
                                                    "-", "--logits", "--top", 1).splitlines()]
        assert [answer["image"] for answer in answers] == [str(file) for file in files]
        ours = torch.tensor([answer["logits"] for answer in answers])
        labels = torch.zeros(len(files), dtype=torch.long)
        losses = [torch.nn.functional.cross_entropy(logits, labels).item() for logits in (ours, expected)]
        difference = (ours - expected).abs().max().item() / expected.abs().max().item()
        agree = (ours.argmax(1) == expected.argmax(1)).float().mean().item()
        print(f"{options.network}{', F16' if options.half else ''}: {len(files)} images, largest difference "
              f"{difference:.2e} of the largest logit, equal best class {100 * agree:.1f} %, loss {losses[0]:.4f} and "
              f"{losses[1]:.4f}", flush=True)
        if options.network in OTHER_NAMES:
            return
        run(options.octet, "train", recipe, "--run", f"{directory}/run", "--set", "data.name=synthetic", "--set", "data.root=",
            "--set", "data.samples=16", "--set", f"model.initial_weights={weights}", "--set", "train.lr=0", "--set",
            "train.steps=1", "--set", "checkpoint.best=false", "--set", "data.batch=2")
        model.load_state_dict(load_file(f"{directory}/run/weights.safetensors"), strict=True)
        print("octet's file is loaded with strict=True")


if __name__ == "__main__":
    main()
