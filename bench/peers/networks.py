"""The networks that octet is compared with, in plain PyTorch, with torchvision's parameter names.

Written after torchvision's models (BSD 3-Clause) and the papers; torchvision itself is not needed.
"""

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


NETWORKS = {  # name: (maker of (classes), image size, classes)
    "resnet20": (lambda classes: ResNet(BasicBlock, [3] * 3, [16, 32, 64], classes, cifar=True), 32, 10),
    "mobilenet_v2_cifar": (lambda classes: MobileNetV2(classes, cifar=True), 32, 10),
    "mobilenet_v2": (MobileNetV2, 224, 1000),
    "resnet18": (lambda classes: ResNet(BasicBlock, [2] * 4, [64, 128, 256, 512], classes), 224, 1000),
    "resnet34": (lambda classes: ResNet(BasicBlock, [3, 4, 6, 3], [64, 128, 256, 512], classes), 224, 1000),
    "resnet50": (lambda classes: ResNet(Bottleneck, [3, 4, 6, 3], [64, 128, 256, 512], classes), 224, 1000),
    "resnet101": (lambda classes: ResNet(Bottleneck, [3, 4, 23, 3], [64, 128, 256, 512], classes), 224, 1000),
}
