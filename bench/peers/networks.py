"""The networks that octet is compared with, in plain PyTorch, with torchvision's parameter names where it has the network.

Written after torchvision's models (BSD 3-Clause) and the papers; torchvision itself is not needed.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


def norm(channels):
    return nn.BatchNorm2d(channels)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut; projection (1x1) where the shape changes."""

    expansion = 1

    def __init__(self, channels_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        self.downsample = projection(channels_in, width, stride)

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + shortcut)


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride), 1x1 to four times the width, and a shortcut."""

    expansion = 4

    def __init__(self, channels_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = norm(4 * width)
        self.downsample = projection(channels_in, 4 * width, stride)

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return F.relu(self.bn3(self.conv3(x)) + shortcut)


def projection(channels_in, channels_out, stride):
    if stride == 1 and channels_in == channels_out:
        return None
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), norm(channels_out))


class ResNet(nn.Module):
    """cifar: a 3x3 stem without pooling (ResNet-20); otherwise 7x7 with stride 2 and a max pool."""

    def __init__(self, block, blocks, widths, classes, cifar=False):
        super().__init__()
        self.cifar = cifar
        channels = widths[0]
        stem = dict(kernel_size=3, stride=1, padding=1) if cifar else dict(kernel_size=7, stride=2, padding=3)
        self.conv1 = nn.Conv2d(3, channels, bias=False, **stem)
        self.bn1 = norm(channels)
        self.stages = []
        for stage, (count, width) in enumerate(zip(blocks, widths), start=1):
            layers = []
            for index in range(count):
                stride = 2 if stage > 1 and index == 0 else 1
                layers.append(block(channels, width, stride))
                channels = width * block.expansion
            name = f"layer{stage}"
            self.add_module(name, nn.Sequential(*layers))
            self.stages.append(name)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.cifar:
            x = F.max_pool2d(x, 3, 2, 1)
        for name in self.stages:
            x = getattr(self, name)(x)
        return self.fc(x.mean(dim=(2, 3)))


def conv_norm_relu6(channels_in, channels_out, kernel=1, stride=1, groups=1):
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, norm(channels_out), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, channels_in, channels_out, stride, expand):
        super().__init__()
        self.shortcut = stride == 1 and channels_in == channels_out
        hidden = channels_in * expand
        layers = [conv_norm_relu6(channels_in, hidden)] if expand != 1 else []
        layers += [conv_norm_relu6(hidden, hidden, 3, stride, groups=hidden)]
        layers += [nn.Conv2d(hidden, channels_out, 1, bias=False), norm(channels_out)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(nn.Module):
    """cifar: the stem and the second stage keep the resolution (strides 1), the rest is as for ImageNet. No dropout."""

    def __init__(self, classes, cifar=False):
        super().__init__()
        stages = [  # expand, channels, blocks, stride
            (1, 16, 1, 1),
            (6, 24, 2, 1 if cifar else 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ]
        features = [conv_norm_relu6(3, 32, 3, 1 if cifar else 2)]
        channels = 32
        for expand, width, count, stride in stages:
            for index in range(count):
                features.append(InvertedResidual(channels, width, stride if index == 0 else 1, expand))
                channels = width
        features.append(conv_norm_relu6(channels, 1280))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(2, 3)))


class SameConv(nn.Conv2d):
    """A convolution with TensorFlow's "SAME" padding: ceil(size / stride) outputs, an odd zero behind the image."""

    def __init__(self, channels_in, channels_out, kernel=1, stride=1, groups=1):
        super().__init__(channels_in, channels_out, kernel, stride, groups=groups, bias=False)

    def padding_of(self, image):
        """(left, right, above, below) for images of (height, width)."""
        height, width = (max((-(-size // stride) - 1) * stride + kernel - size, 0)
                         for size, stride, kernel in zip(image, self.stride, self.kernel_size))
        return width // 2, width - width // 2, height // 2, height - height // 2

    def forward(self, x):
        return super().forward(F.pad(x, self.padding_of(x.shape[2:])))


class LiteBlock(nn.Module):
    """EfficientNet-Lite's inverted residual: no squeeze-and-excitation, ReLU6."""

    def __init__(self, channels_in, channels_out, kernel, stride, expand):
        super().__init__()
        self.shortcut = stride == 1 and channels_in == channels_out
        self.expands = expand != 1
        hidden = channels_in * expand
        if self.expands:
            self._expand_conv = SameConv(channels_in, hidden)
            self._bn0 = nn.BatchNorm2d(hidden, eps=1e-3)
        self._depthwise_conv = SameConv(hidden, hidden, kernel, stride, groups=hidden)
        self._bn1 = nn.BatchNorm2d(hidden, eps=1e-3)
        self._project_conv = SameConv(hidden, channels_out)
        self._bn2 = nn.BatchNorm2d(channels_out, eps=1e-3)

    def forward(self, x):
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = F.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.shortcut else y


class EfficientNetLite0(nn.Module):
    """Parameter names of the package efficientnet_lite_pytorch. cifar: as MobileNetV2's. No stochastic depth."""

    def __init__(self, classes, cifar=False, dropout=0.2):
        super().__init__()
        stages = [  # expand, kernel, channels, blocks, stride
            (1, 3, 16, 1, 1),
            (6, 3, 24, 2, 1 if cifar else 2),
            (6, 5, 40, 2, 2),
            (6, 3, 80, 3, 2),
            (6, 5, 112, 3, 1),
            (6, 5, 192, 4, 2),
            (6, 3, 320, 1, 1),
        ]
        channels, blocks = 32, []
        self._conv_stem = SameConv(3, channels, 3, 1 if cifar else 2)
        self._bn0 = nn.BatchNorm2d(channels, eps=1e-3)
        for expand, kernel, width, count, stride in stages:
            for index in range(count):
                blocks.append(LiteBlock(channels, width, kernel, stride if index == 0 else 1, expand))
                channels = width
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv(channels, 1280)
        self._bn1 = nn.BatchNorm2d(1280, eps=1e-3)
        self._dropout = nn.Dropout(dropout)
        self._fc = nn.Linear(1280, classes)

    def forward(self, x):
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = F.relu6(self._bn1(self._conv_head(x)))
        return self._fc(self._dropout(x.mean(dim=(2, 3))))


def alexnet(classes, with_norm=False, small=False, dropout=0.5):
    """small: a first layer of 5x5 with stride 2, linear layers of what the last pool leaves (for images of 32 pixels)."""
    channels, layers = 3, []
    plan = [(64, 5 if small else 11, 2 if small else 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False),
            (256, 3, 1, 1, False), (256, 3, 1, 1, True)]
    for width, kernel, stride, pad, pooled in plan:
        layers += [nn.Conv2d(channels, width, kernel, stride, pad, bias=not with_norm)]
        layers += [norm(width)] * with_norm + [nn.ReLU()] + [nn.MaxPool2d(3, 2)] * pooled
        channels = width
    head, width = [], 256 * (1 if small else 36)
    for _ in range(2):
        head += [nn.Dropout(dropout)] * (not with_norm) + [nn.Linear(width, 4096, bias=not with_norm)]
        head += [nn.BatchNorm1d(4096)] * with_norm + [nn.ReLU()]
        width = 4096
    model = nn.Sequential()
    model.add_module("features", nn.Sequential(*layers))
    model.add_module("flatten", nn.Flatten())
    model.add_module("classifier", nn.Sequential(*head, nn.Linear(width, classes)))
    return model


class ConvNorm(nn.Module):
    def __init__(self, channels_in, channels_out, kernel, stride=1, pad=0):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, stride, pad, bias=False)
        self.bn = nn.BatchNorm2d(channels_out, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class InceptionBlock(nn.Module):
    """branches: lists of (name, channels, kernel, pad, stride), each a chain that starts at the block's input or at a named
    layer (written "name>"); pool: average then 1x1 (channels), or None: max with stride 2."""

    def __init__(self, channels, branches, pool):
        super().__init__()
        self.chains, width = [], {"": channels}
        for start, chain, joined in branches:
            last = start
            for name, out, kernel, pad, stride in chain:
                self.add_module(name, ConvNorm(width[last], out, kernel, stride, pad))
                width[name], last = out, name
            self.chains.append((start, [layer[0] for layer in chain], joined))
        self.pool = pool
        if pool:
            self.branch_pool = ConvNorm(channels, pool, 1)
        self.channels = sum(width[chain[-1]] for _, chain, joined in self.chains if joined) + (pool or channels)

    def forward(self, x):
        values, parts = {"": x}, []
        for start, chain, joined in self.chains:
            y = values[start]
            for name in chain:
                y = values[name] = getattr(self, name)(y)
            if joined:
                parts.append(y)
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1)) if self.pool else F.max_pool2d(x, 3, 2)
        return torch.cat([*parts, pooled], 1)


def inception_a(channels, pool):
    five = [("branch5x5_1", 48, 1, 0, 1), ("branch5x5_2", 64, 5, 2, 1)]
    three = [("branch3x3dbl_1", 64, 1, 0, 1), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 1, 1)]
    return InceptionBlock(channels, [("", [("branch1x1", 64, 1, 0, 1)], True), ("", five, True), ("", three, True)], pool)


def inception_b(channels):
    three = [("branch3x3dbl_1", 64, 1, 0, 1), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 0, 2)]
    return InceptionBlock(channels, [("", [("branch3x3", 384, 3, 0, 2)], True), ("", three, True)], None)


def inception_c(channels, width):
    row, column = ((1, 7), (0, 3)), ((7, 1), (3, 0))
    seven = [("branch7x7_1", width, 1, 0, 1), ("branch7x7_2", width, *row, 1), ("branch7x7_3", 192, *column, 1)]
    twice = [("branch7x7dbl_1", width, 1, 0, 1), ("branch7x7dbl_2", width, *column, 1), ("branch7x7dbl_3", width, *row, 1),
             ("branch7x7dbl_4", width, *column, 1), ("branch7x7dbl_5", 192, *row, 1)]
    return InceptionBlock(channels, [("", [("branch1x1", 192, 1, 0, 1)], True), ("", seven, True), ("", twice, True)], 192)


def inception_d(channels):
    three = [("branch3x3_1", 192, 1, 0, 1), ("branch3x3_2", 320, 3, 0, 2)]
    seven = [("branch7x7x3_1", 192, 1, 0, 1), ("branch7x7x3_2", 192, (1, 7), (0, 3), 1),
             ("branch7x7x3_3", 192, (7, 1), (3, 0), 1), ("branch7x7x3_4", 192, 3, 0, 2)]
    return InceptionBlock(channels, [("", three, True), ("", seven, True)], None)


def inception_e(channels):
    row, column = ((1, 3), (0, 1), 1), ((3, 1), (1, 0), 1)
    return InceptionBlock(channels, [
        ("", [("branch1x1", 320, 1, 0, 1)], True),
        ("", [("branch3x3_1", 384, 1, 0, 1)], False),
        ("branch3x3_1", [("branch3x3_2a", 384, *row)], True),
        ("branch3x3_1", [("branch3x3_2b", 384, *column)], True),
        ("", [("branch3x3dbl_1", 448, 1, 0, 1), ("branch3x3dbl_2", 384, 3, 1, 1)], False),
        ("branch3x3dbl_2", [("branch3x3dbl_3a", 384, *row)], True),
        ("branch3x3dbl_2", [("branch3x3dbl_3b", 384, *column)], True)], 192)


class Auxiliary(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv0 = ConvNorm(768, 128, 1)
        self.conv1 = ConvNorm(128, 768, 5)
        self.fc = nn.Linear(768, classes)

    def forward(self, x):
        return self.fc(self.conv1(self.conv0(F.avg_pool2d(x, 5, 3))).mean(dim=(2, 3)))


class InceptionV3(nn.Module):
    """small: the CIFAR form, which pools nothing and has no auxiliary head. Returns (logits, auxiliary logits) with one."""

    def __init__(self, classes, small=False, dropout=0.5):
        super().__init__()
        pad = 1 if small else 0
        self.small = small
        self.Conv2d_1a_3x3 = ConvNorm(3, 32, 3, 1 if small else 2, pad)
        self.Conv2d_2a_3x3 = ConvNorm(32, 32, 3, 1, pad)
        self.Conv2d_2b_3x3 = ConvNorm(32, 64, 3, 1, 1)
        self.Conv2d_3b_1x1 = ConvNorm(64, 80, 1)
        self.Conv2d_4a_3x3 = ConvNorm(80, 192, 3)
        makers = [("5b", inception_a, 32), ("5c", inception_a, 64), ("5d", inception_a, 64), ("6a", inception_b),
                  ("6b", inception_c, 128), ("6c", inception_c, 160), ("6d", inception_c, 160), ("6e", inception_c, 192),
                  ("7a", inception_d), ("7b", inception_e), ("7c", inception_e)]
        channels = 192
        for name, maker, *options in makers:
            block = maker(channels, *options)
            if name == "7a" and not small:
                self.AuxLogits = Auxiliary(classes)
            self.add_module(f"Mixed_{name}", block)
            channels = block.channels
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = x if self.small else F.max_pool2d(x, 3, 2)
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x))
        x = x if self.small else F.max_pool2d(x, 3, 2)
        for name in "5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e":
            x = getattr(self, f"Mixed_{name}")(x)
        auxiliary = None if self.small else self.AuxLogits(x)
        for name in "7a", "7b", "7c":
            x = getattr(self, f"Mixed_{name}")(x)
        logits = self.fc(self.dropout(x.mean(dim=(2, 3))))
        return logits if self.small else (logits, auxiliary)


NETWORKS = {  # name: (maker of (classes), image size, classes)
    "resnet20": (lambda classes: ResNet(BasicBlock, [3] * 3, [16, 32, 64], classes, cifar=True), 32, 10),
    "mobilenet_v2_cifar": (lambda classes: MobileNetV2(classes, cifar=True), 32, 10),
    "mobilenet_v2": (MobileNetV2, 224, 1000),
    "efficientnet_lite0": (EfficientNetLite0, 224, 1000),
    "efficientnet_lite0_cifar": (lambda classes: EfficientNetLite0(classes, cifar=True), 32, 10),
    "resnet18": (lambda classes: ResNet(BasicBlock, [2] * 4, [64, 128, 256, 512], classes), 224, 1000),
    "resnet34": (lambda classes: ResNet(BasicBlock, [3, 4, 6, 3], [64, 128, 256, 512], classes), 224, 1000),
    "resnet50": (lambda classes: ResNet(Bottleneck, [3, 4, 6, 3], [64, 128, 256, 512], classes), 224, 1000),
    "alexnet": (alexnet, 224, 1000),
    "alexnet_bn": (lambda classes: alexnet(classes, with_norm=True), 224, 1000),
    "inception_v3": (InceptionV3, 299, 1000),
    "inception_v3_cifar": (lambda classes: InceptionV3(classes, small=True), 32, 10),
    # Without dropout, whose random numbers are each program's own.
    "alexnet_no_dropout": (lambda classes: alexnet(classes, dropout=0.0), 224, 1000),
    "alexnet_bn_cifar": (lambda classes: alexnet(classes, with_norm=True, small=True), 32, 10),
    "inception_v3_no_dropout": (lambda classes: InceptionV3(classes, dropout=0.0), 299, 1000),
    "inception_v3_cifar_no_dropout": (lambda classes: InceptionV3(classes, small=True, dropout=0.0), 32, 10),
    "efficientnet_lite0_no_dropout": (lambda classes: EfficientNetLite0(classes, dropout=0.0), 224, 1000),
    "efficientnet_lite0_cifar_no_dropout": (lambda classes: EfficientNetLite0(classes, cifar=True, dropout=0.0), 32, 10),
    "resnet101": (lambda classes: ResNet(Bottleneck, [3, 4, 23, 3], [64, 128, 256, 512], classes), 224, 1000),
}
