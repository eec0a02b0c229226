// Classification: each image has one label. Networks are compared by top-1 accuracy.
#include "src/models/models.h"
#include "src/models/unread_keys.h"
#include "src/tasks/task.h"

namespace octet {
namespace {

Graph network(const Config& config, const Policy& policy, int64_t height, int64_t width, bool trains) {
  refuse_unread_keys(config);
  Graph graph(policy);
  const Edge images = input(graph, {height, width});
  const std::vector<Head> heads = make_model(graph, images, config.model);
  if (!config.train.freeze.empty()) graph.freeze_through(config.train.freeze);
  const bool mixed = trains && config.augment.mixup > 0;
  softmax_loss(graph, {heads, float(config.train.label_smoothing), {"top1", "top5"}, mixed});
  return graph;
}

}  // namespace

extern const Task classification = {.name = "classification", .network = network, .judge = "top1"};

}  // namespace octet
