"""The networks of quantized.py: PyTorch's training with octet's recipe, quantization after and during training, files with QDQ.

Quantization is that of FX graph mode with 8 bits for activations and weights, and a scale for each output channel of
weights. A file takes N x 3 x 32 x 32 float32 in [0, 1], as octet's do: the normalization is inside.
"""

import copy
import math
import statistics
import sys
import time
import warnings

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn
from torch.ao.quantization import HistogramObserver, QConfig, get_default_qat_qconfig_mapping, get_default_qconfig_mapping
from torch.ao.quantization.fake_quantize import FusedMovingAvgObsFakeQuantize
from torch.ao.quantization.quantize_fx import _convert_to_reference_decomposed_fx, prepare_fx, prepare_qat_fx

from networks import NETWORKS

MEAN, DEVIATION = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]  # octet's for CIFAR-10
SIDE, PAD = 32, 4
BACKEND = "onednn"  # all 8 bits of activations; "x86" keeps one bit free for processors without VNNI
FINE_TUNING = 0.1   # of the recipe's learning rate

warnings.filterwarnings("ignore", "torch.ao.quantization is deprecated")


class Cifar10:
    """The binary version. pixels: (images, 32, 32, 3) uint8; labels: (images)."""

    def __init__(self, folder, files, count=None):
        records = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 1 + 3 * SIDE * SIDE) for name in files])[:count]
        self.labels = torch.from_numpy(records[:, 0].astype(np.int64))
        self.pixels = np.ascontiguousarray(records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))

    def batches(self, batch, seed, epoch):
        """Normalized (images, labels) in random order, each image moved by up to 4 pixels and mirrored or not, as in octet."""
        random = np.random.default_rng((seed, epoch))
        order = random.permutation(len(self.pixels))
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start:start + batch]
            padded = np.pad(self.pixels[chosen], ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
            shifts, mirrored = random.integers(0, 2 * PAD + 1, (batch, 2)), random.integers(0, 2, batch)
            crops = [image[y:y + SIDE, x:x + SIDE][:, ::-1 if flip else 1]
                     for image, (y, x), flip in zip(padded, shifts, mirrored)]
            yield normalized(np.stack(crops)), self.labels[chosen]


def normalized(pixels):
    """(images, 3, 32, 32) float32 in channels_last, of uint8 pixels with channels last."""
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float()
    mean, deviation = (255 * torch.tensor(of).reshape(3, 1, 1) for of in (MEAN, DEVIATION))
    return (images - mean) / deviation


def in_unit_range(pixels):
    """(images, 3, 32, 32) float32 in [0, 1]: what the files take."""
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).astype(np.float32) / 255


class WithNormalization(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(MEAN).reshape(3, 1, 1))
        self.register_buffer("deviation", torch.tensor(DEVIATION).reshape(3, 1, 1))

    def forward(self, images):
        return self.network((images - self.mean) / self.deviation)


def make_network(name, seed):
    """With octet's initial distributions, which are torchvision's."""
    torch.manual_seed(seed)
    network = NETWORKS[name][0](10)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
        elif isinstance(module, nn.Linear) and name.startswith("mobilenet"):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)
    return network.to(memory_format=torch.channels_last)


class Training:
    """A network, its optimizer and octet's schedule."""

    def __init__(self, network, recipe, data, epochs, seed, fine_tuning=False):
        self.network, self.recipe, self.data, self.epochs, self.seed = network.train(), recipe, data, epochs, seed
        self.lr = recipe["train.lr"] * (FINE_TUNING if fine_tuning else 1)
        self.warmup = 0 if fine_tuning else recipe["train.warmup_epochs"]
        self.optimizer = torch.optim.SGD(network.parameters(), self.lr, recipe["train.momentum"],
                                         weight_decay=recipe["train.decay"])
        self.steps_per_epoch = len(data.labels) // recipe["data.batch"]

    def rate(self, step):
        """Linear warm-up, then a cosine."""
        warmup, total = self.warmup * self.steps_per_epoch, self.epochs * self.steps_per_epoch
        if step < warmup:
            return self.lr * (step + 1) / warmup
        return self.lr * (1 + math.cos(math.pi * min(1, (step - warmup) / max(1, total - warmup)))) / 2

    def steps(self, epoch):
        """Makes the epoch's steps, one at each turn, and yields (loss, seconds): from the image files' pixels to new weights."""
        batches, step = self.data.batches(self.recipe["data.batch"], self.seed, epoch), epoch * self.steps_per_epoch
        for step in range(step, step + self.steps_per_epoch):
            start = time.perf_counter()
            images, labels = next(batches)
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate(step)
            self.optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(self.network(images), labels)
            loss.backward()
            self.optimizer.step()
            yield loss.item(), time.perf_counter() - start

    def run(self, checkpoint, limit, title):
        """Trains to the end, or for `limit` steps, from the checkpoint if there is one. Returns (steps, their seconds)."""
        done = {"epoch": 0, "steps": 0, "seconds": 0.0}
        if checkpoint.exists():
            done = torch.load(checkpoint, weights_only=True)
            self.network.load_state_dict(done["network"])
            self.optimizer.load_state_dict(done["optimizer"])
        for epoch in range(done["epoch"], self.epochs):
            if limit and done["steps"] >= limit:
                break
            losses, seconds = [], []
            for loss, taken in self.steps(epoch):
                losses.append(loss)
                seconds.append(taken)
                if not math.isfinite(loss):
                    sys.exit(f"quantized.py: {title}: the loss of step {done['steps'] + len(losses)} is {loss}; fix: a lower --lr "
                             f"or another --seed, in another --work")
                if limit and done["steps"] + len(losses) >= limit:
                    break
            print(f"{title}: epoch {epoch + 1}/{self.epochs}: loss {statistics.mean(losses):.3f}, {sum(seconds):.0f} s, "
                  f"median step {1000 * statistics.median(seconds):.0f} ms", file=sys.stderr, flush=True)
            done = {"epoch": epoch + 1, "steps": done["steps"] + len(losses), "seconds": done["seconds"] + sum(seconds)}
            partial = checkpoint.with_suffix(".partial")
            torch.save({**done, "network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}, partial)
            partial.rename(checkpoint)
        return done["steps"], done["seconds"]


class UpTo6:
    """A ReLU6 as a ReLU whose codes end at 6.

    FX graph mode fuses a convolution with a ReLU, but not with a ReLU6: that one would share the codes of the values before it,
    negative ones and all, and ONNX Runtime would compute it in fp32.
    """

    def forward(self, x):
        return super().forward(x.clamp(max=6))


class HistogramUpTo6(UpTo6, HistogramObserver):
    pass


class FakeQuantizeUpTo6(UpTo6, FusedMovingAvgObsFakeQuantize):
    pass


def prepared(network, images, while_training):
    """A copy with observers, or with fake quantization."""
    network = copy.deepcopy(network)
    mapping = (get_default_qat_qconfig_mapping if while_training else get_default_qconfig_mapping)(BACKEND)
    usual = mapping.global_qconfig
    if while_training:
        activation = FakeQuantizeUpTo6.with_args(**usual.activation.p.keywords)
    else:
        activation = HistogramUpTo6.with_args(**usual.activation.p.keywords)
    up_to_6 = QConfig(activation, usual.weight)
    for name, module in network.named_modules():
        if isinstance(module, nn.Sequential) and isinstance(module[-1], nn.ReLU6):
            module[-1] = nn.ReLU()
            mapping.set_module_name(name, up_to_6)
    if while_training:
        return prepare_qat_fx(network.train(), mapping, (images,)).to(memory_format=torch.channels_last)
    return prepare_fx(network.eval(), mapping, (images,))


def quantized_after_training(network, images):
    network = prepared(network, images, while_training=False)
    with torch.no_grad():
        for part in images.split(128):
            network(part)
    return converted(network)


def converted(network):
    """With Q and DQ between fp32 layers: of the forms that FX graph mode makes, the one that torch.onnx's exporter takes."""
    return _convert_to_reference_decomposed_fx(copy.deepcopy(network).eval())


def accuracy(network, data):
    """Percent of the images."""
    with torch.no_grad():
        right = sum(int((network(normalized(data.pixels[i:i + 100])).argmax(1) == data.labels[i:i + 100]).sum())
                    for i in range(0, len(data.labels), 100))
    return 100 * right / len(data.labels)


def export(network, file):
    """Writes the file. PyTorch writes fp32 weights and a Q behind them; ONNX Runtime's basic optimizations make them codes."""
    whole = file.with_suffix(".exported")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(WithNormalization(network).eval(), (torch.rand(2, 3, SIDE, SIDE),), str(whole), dynamo=True,
                          input_names=["images"], output_names=["logits"], opset_version=19, external_data=False,
                          dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(file)
    onnxruntime.InferenceSession(str(whole), options, providers=["CPUExecutionProvider"])
    whole.unlink()


class Images(CalibrationDataReader):
    def __init__(self, pixels):
        self.left = iter(pixels.reshape(-1, 128, *pixels.shape[1:]))

    def get_next(self):
        part = next(self.left, None)
        return None if part is None else {"images": in_unit_range(part)}


def quantized_by_runtime(fp32_file, file, pixels):
    """Writes the file; pixels calibrate, a multiple of 128 images."""
    prepared_file = file.with_suffix(".prepared")
    quant_pre_process(str(fp32_file), str(prepared_file), skip_symbolic_shape=True)
    quantize_static(str(prepared_file), str(file), Images(pixels), quant_format=QuantFormat.QDQ, per_channel=True,
                    reduce_range=False, weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)
    prepared_file.unlink()


def accuracy_in_runtime(file, data, threads):
    """Percent of the images."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    right = 0
    for i in range(0, len(data.labels), 100):
        logits = session.run(None, {"images": in_unit_range(data.pixels[i:i + 100])})[0]
        right += int(np.count_nonzero(logits.argmax(1) == data.labels[i:i + 100].numpy()))
    return 100 * right / len(data.labels)
