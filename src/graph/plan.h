// Runs a network on one batch size: forward, backward and what surrounds them are loops over nodes. Parameters and
// arena may be shared with other plans, since nothing in an arena outlives a step.
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
  // Describes the plan; bind_plans() gives it memory. batch: samples of this rank. clips may be null when the policy
  // holds no clips.
  Plan(Graph, Parameters&, const Policy&, Backend&, ClipCoordinator* clips, int64_t batch, const PlanOptions&);
  ~Plan();

  // images: (batch, H, W, C) f32, and targets, in the host's memory; the step's own are on the device. sent: send() has
  // had these images.
  void load(Step&, const float* images, const Targets&, bool sent = false);
  // Sends the images of the next load() while the device computes; not where the host's memory is the device's.
  bool sends() const { return upload_ != nullptr; }
  void send(const float* images) { upload_->begin(images); }
  void forward(Step&);
  void backward(Step&, GradientExchange&);  // a finished parameter is handed to the exchange at once
  void find_nonfinite();                    // among the gradients, after their exchange
  // Of the last forward, waiting for it. The first metric is "loss", what training minimizes; its count is the number
  // of samples. finite: what find_nonfinite() saw.
  struct Outcome {
    Metrics metrics;
    bool finite = true;
  };
  Outcome outcome(bool training);
  void update_statistics(Step&);  // after the ranks averaged the batch moments
  // The first weight, else node, whose forward result is not finite, computed again, else gradient; empty: all are.
  std::string first_nonfinite(Step&);

  Memory& memory() { return memory_; }
  int64_t batch() const { return batch_; }
  size_t arena_bytes() const { return layout_.arena_bytes; }
  size_t image_bytes() const;
  Work work() const;             // of a training step of this rank
  std::string describe() const;  // one line per node: shape, encoding, bytes, parameters

 private:
  friend std::unique_ptr<Buffer> bind_plans(Backend&, Parameters&, std::span<Plan* const>);
  void bind(std::span<std::byte> arena);
  void* add_buffer(size_t bytes);

  Graph graph_;
  Parameters& parameters_;
  const Policy& policy_;
  Backend& backend_;
  int64_t batch_;
  PlanOptions options_;
  Layout layout_;
  Memory memory_;
  std::span<std::byte> arena_;
  std::vector<std::vector<size_t>> node_params_;  // by node: indices into parameters_.all()
  float* images_ = nullptr;                       // where the device cannot read the host's
  std::unique_ptr<Upload> upload_;
  int32_t* nonfinite_ = nullptr;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// Allocates one arena for all plans and binds them to it and to the parameters, which are allocated. UsageError: the
// device has too little memory; says which batch would fit.
std::unique_ptr<Buffer> bind_plans(Backend&, Parameters&, std::span<Plan* const> plans);

}  // namespace octet
