// Runs a network at one batch size: forward and backward are loops over nodes. Several plans can share parameters and
// an arena, since nothing in an arena is needed after the step that wrote it.
#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "src/graph/layout.h"
#include "src/graph/metrics.h"

namespace octet {

class Plan {
 public:
  // Computes the layout; bind_plans() allocates memory. batch: samples per rank.
  Plan(Graph, Parameters&, const Policy&, Backend&, const HeldRanges&, int64_t batch, const PlanOptions&);
  ~Plan();

  // Prepares a step. images: as PlanOptions::pixels says. Images and targets are in host memory. Sets Step::images to
  // the images in the device's memory; if the device uses the host's, they must stay until the step ends. sent: send()
  // has been called with these images.
  void load(Step&, const void* images, const Targets&, bool sent = false);
  // send() copies the images of the next load() to the device while the device computes. It may be called only if
  // sends() is true. sends() is false if the device uses host memory.
  bool sends() const { return upload_ != nullptr; }
  void send(const void* images) { upload_->begin(images); }
  void forward(Step&);
  // Passes each finished gradient to the exchange at once. Null: the gradients are not finished, since other images add
  // to them.
  void backward(Step&, GradientExchange*);
  void find_nonfinite();  // searches the gradients after the exchange
  // The result of the last forward. The first metric is "loss", which training minimizes. The counts are numbers of
  // samples. finite: find_nonfinite() found only finite gradients. outcome() waits for the device.
  struct Outcome {
    Metrics metrics;
    bool finite = true;
  };
  Outcome outcome(bool training);
  // What a detector found in the last forward; coordinates are those of the files.
  std::vector<Detection> detections(const Step&) const;
  // What a classifier says of the images of the last forward, (batch, classes); empty for a detector.
  std::vector<float> logits(const Step&) const;
  void update_statistics(Step&);  // called after batch moments have been averaged over ranks
  // The name of the first weight that is not finite, else of the first node whose forward result is not finite, else of
  // the first gradient that is not finite. Empty if all are finite. Runs forward again.
  std::string first_nonfinite(Step&);

  const Graph& graph() const { return graph_; }
  const Layout& layout() const { return layout_; }
  Memory& memory() { return memory_; }
  std::span<const int64_t> range_elements() const { return layout_.range_elements; }  // by ActivationRanges' layer
  int64_t batch() const { return batch_; }
  size_t arena_bytes() const { return layout_.arena_bytes; }
  size_t image_bytes() const;
  Work work() const;  // of one training step on this rank
  // A table with a line for each node: shape, encoding, bytes, parameters. columns: see table_text().
  std::string describe(size_t columns = 0) const;

 private:
  friend std::unique_ptr<Buffer> bind_plans(Backend&, Parameters&, std::span<Plan* const>);
  void bind(std::span<std::byte> arena);
  void* add_buffer(size_t bytes);

  Graph graph_;
  Parameters& parameters_;
  const Policy& policy_;
  Backend& backend_;
  int64_t batch_;
  double samples_ = 0;  // of the last load(), without padding
  PlanOptions options_;
  Layout layout_;
  Memory memory_;
  std::span<std::byte> arena_;
  std::vector<std::vector<size_t>> node_params_;  // by node: indices into parameters_.all()
  void* images_ = nullptr;                        // device copy; null if the device uses host memory
  std::unique_ptr<Upload> upload_;
  int32_t* nonfinite_ = nullptr;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// Allocates the parameters and one arena, and binds all plans to both. If there is a training plan, it must be
// plans.front(). Throws a UsageError before it allocates anything if the device has too little memory. The message says
// which batch would fit, if any.
std::unique_ptr<Buffer> bind_plans(Backend&, Parameters&, std::span<Plan* const> plans);

}  // namespace octet
