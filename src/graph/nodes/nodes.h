// Factories of the nodes. Each node is one .cpp file in this folder.
#pragma once
#include <memory>

#include "src/graph/graph.h"

namespace octet {

struct ConvBlockOptions : ConvOptions {
  bool reads_input = false;  // the first layer of the network
  bool linear = false;       // fully connected: the kernel covers the image, and the weight is a matrix
};

std::unique_ptr<Node> make_input(int64_t height, int64_t width, int64_t channels, Edge output);
// y = encode(activation(norm(conv(x)) + residual)); inputs are {x} or {x, residual}. For a simulated policy this
// returns make_simulated_conv_block().
std::unique_ptr<Node> make_conv_block(const Policy&, std::string name, std::vector<Edge> inputs, Edge output,
                                      const ConvBlockOptions&);
std::unique_ptr<Node> make_simulated_conv_block(const Policy&, std::string name, std::vector<Edge> inputs, Edge output,
                                                const ConvBlockOptions&);
std::unique_ptr<Node> make_pool(std::string name, Edge x, Edge y, const PoolOptions&);
std::unique_ptr<Node> make_global_pool(std::string name, Edge x, Edge y);
std::unique_ptr<Node> make_concat(std::string name, std::vector<Edge> parts, Edge y);
std::unique_ptr<Node> make_dropout(std::string name, Edge x, Edge y, float rate);
std::unique_ptr<Node> make_dense_loss(const std::vector<DenseLevel>&, const DenseLossOptions&);
std::unique_ptr<Node> make_detect(const std::vector<DenseLevel>&, const DetectOptions&);
std::unique_ptr<Node> make_propose(std::string name, const std::vector<DenseLevel>&, const Regions&,
                                   const ProposeOptions&);
std::unique_ptr<Node> make_roi_pool(std::string name, std::vector<Edge> maps_and_table, Edge y, const RoiPoolOptions&);
std::unique_ptr<Node> make_roi_loss(Edge logits, Edge deltas, const Regions&, const RoiLossOptions&);
std::unique_ptr<Node> make_detect_regions(Edge logits, Edge deltas, const Regions&, const DetectOptions&);
std::unique_ptr<Node> make_softmax_loss(const std::vector<Head>& heads, float label_smoothing,
                                        const std::vector<std::string>& hits, bool mixed);

}  // namespace octet
