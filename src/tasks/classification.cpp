// One label for each image; judged by how often it is the network's first answer, or among its first five.
#include "src/models/models.h"
#include "src/tasks/task.h"

namespace octet {
namespace {

Graph network(const Config& config, const Policy& policy, int64_t height, int64_t width) {
  Graph graph(policy);
  const Edge images = graph.input(height, width, 3);
  graph.softmax_loss(make_model(graph, images, config.model), float(config.train.label_smoothing), {"top1", "top5"});
  return graph;
}

}  // namespace

extern const Task classification = {.name = "classification",
                                    .network = network,
                                    .metrics = {{.name = "loss", .label = "loss", .headline = true},
                                                {.name = "top1", .label = "top-1", .percent = true, .headline = true},
                                                {.name = "top5", .label = "top-5", .percent = true}}};

}  // namespace octet
