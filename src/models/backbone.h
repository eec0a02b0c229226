// Networks without their last layers, as detectors use them.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/graph/nodes/nodes.h"

namespace octet {

// Appends model.backbone and returns the outputs of its first `count` stages, of C2 to C5 with the strides 4, 8, 16 and
// 32. What model.norm and model.freeze_stages freeze keeps its loaded weights. prefix: of all names of layers.
// UsageError: the name is not known; the message lists the known ones.
std::vector<Edge> make_backbone(Graph&, Edge images, const Config::Model&, const std::string& prefix, int count = 4);
// Appends the fourth stage alone. stride: of its first block. dilation: of its 3x3 convolutions. UsageError: the
// backbone is no ResNet.
Edge make_last_stage(Graph&, Edge x, const Config::Model&, const std::string& prefix, int stride, int dilation);
std::vector<std::string> backbone_names();

// Appends convolutions of a backbone. All of them have norms.
struct BackboneLayers {
  Graph& graph;
  std::string prefix = {};    // of all names
  bool frozen_norms = false;  // never trained
  float epsilon = 1e-5f;      // added to the variance
  int64_t frozen_stages = 0;  // the first of them never train at all
  int stage = 0;              // the present one; 0: the stem
  Edge conv(const std::string& name, const std::string& norm, Edge x, ConvOptions) const;
};
BackboneLayers backbone_layers(Graph&, const Config::Model&, const std::string& prefix);
// The outputs of the first `count` of a network's four stages. form: see form_of().
using BackboneStages = std::vector<Edge>(BackboneLayers, Edge images, const std::string& network, size_t form,
                                         int count);
BackboneStages resnet_stages, mobilenet_v2_stages, efficientnet_lite0_stages;

// Feature Pyramid Network (Lin et al., "Feature pyramid networks for object detection", CVPR 2017), with torchvision's
// names. inputs: the stages, the one with the largest stride last. Each output has `channels` channels and the stride
// of its input.
std::vector<Edge> make_pyramid(Graph&, const std::vector<Edge>& inputs, const std::string& prefix, int64_t channels);

}  // namespace octet
