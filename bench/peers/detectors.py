"""torchvision's detectors in the shapes of octet's small recipes."""

import torch
import torchvision
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FasterRCNN, FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.retinanet import RetinaNet, RetinaNetHead
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import MultiScaleRoIAlign
from torchvision.ops.feature_pyramid_network import ExtraFPNBlock

OBJECTS = 16  # on an image


class NoMoreLevels(ExtraFPNBlock):
    def forward(self, results, x, names):
        return results, names


def pyramid(stages, channels, extra):
    """ResNet-18 with batch norm and a feature pyramid over these stages."""
    body = torchvision.models.resnet18(weights=None)
    layers = {f"layer{stage}": str(number) for number, stage in enumerate(stages)}
    return BackboneWithFPN(body, layers, [64 << (stage - 1) for stage in stages], channels, extra)


def same_size(model, height, width):
    """Images are normalized and not resized, as octet's loader delivers them."""
    model.transform = GeneralizedRCNNTransform(min(height, width), max(height, width), [0.0] * 3, [1.0] * 3)
    return model


def retinanet(classes, height, width):
    """configs/bccd_retinanet_resnet18_unified_int8.yaml"""
    sizes = tuple((size, int(size * 2 ** (1 / 3)), int(size * 2 ** (2 / 3))) for size in (20, 40, 80))
    anchors = AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))
    head = RetinaNetHead(128, anchors.num_anchors_per_location()[0], classes)
    for part in head.classification_head, head.regression_head:
        part.conv = torch.nn.Sequential(*list(part.conv)[:2])
    return same_size(RetinaNet(pyramid([2, 3, 4], 128, NoMoreLevels()), classes, anchor_generator=anchors, head=head), height, width)


def faster_rcnn(classes, height, width):
    """configs/bccd_faster_rcnn_resnet18_unified_int8.yaml"""
    anchors = AnchorGenerator(((16,), (32,), (64,), (128,)), ((0.5, 1.0, 2.0),) * 4)
    pool = MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2)
    model = FasterRCNN(pyramid([1, 2, 3, 4], 128, NoMoreLevels()), rpn_anchor_generator=anchors,
                       rpn_pre_nms_top_n_train=1000, rpn_post_nms_top_n_train=300, box_roi_pool=pool,
                       box_head=TwoMLPHead(128 * 7 * 7, 512), box_predictor=FastRCNNPredictor(512, classes + 1),
                       box_batch_size_per_image=128)
    return same_size(model, height, width)


def targets(batch, classes, height, width):
    """Objects for each image, drawn once."""
    chosen = []
    for _ in range(batch):
        corner = torch.rand(OBJECTS, 2) * torch.tensor([width - 100.0, height - 100.0])
        chosen.append({"boxes": torch.cat([corner, corner + 20 + 80 * torch.rand(OBJECTS, 2)], 1),
                       "labels": torch.randint(1, classes, (OBJECTS,))})  # 0 is no object in some networks
    return chosen


DETECTORS = {  # network: function, height and width, classes
    "retinanet": (retinanet, (288, 384), 3),
    "faster_rcnn": (faster_rcnn, (288, 384), 3),
}
