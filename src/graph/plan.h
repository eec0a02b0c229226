// The static plan: decides once, at start, every edge's encoding, every buffer's lifetime and place in one arena, and
// the order of parameters, which is the order of the gradient buckets. A step is then two loops over nodes.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "src/graph/graph.h"
#include "src/graph/weight_clips.h"

namespace octet {

struct PlanOptions {
  // Of convolution outputs and edge gradients of an int8 policy; fp32 keeps f32. With s8, gradients are bf16, and
  // convolution outputs are bf16 until backward's codes of them are written.
  DType storage = DType::bf16;
  bool own_slots = false;  // no two slots share memory
  bool poison = false;     // the arena is filled with NaN before each step
  bool allocate = true;    // false: only describe
};

class Plan {
 public:
  // batch: samples of this rank. clips may be null when the policy holds none.
  Plan(Graph, const Policy&, Backend&, ClipCoordinator* clips, int64_t batch, const PlanOptions&);
  ~Plan();

  // Fills masters by each parameter's Init, as a function of (seed, parameter, element); velocities become 0.
  void initialize_parameters(uint64_t seed);

  // images (batch, H, W, C) f32 and labels (batch), -1 for padding, of the host: the step's own, on the device. sent:
  // send() has had these images.
  void load(Step&, const float* images, const int32_t* labels, bool sent = false);
  // Sends the images of the next load() while the device computes; not where the host's memory is the device's.
  bool sends() const { return upload_ != nullptr; }
  void send(const float* images) { upload_->begin(images); }
  void choose_weight_clips() { weight_clips_->choose(); }  // before encode_weights(), outside Backend::run()
  void encode_weights(Step&);
  void forward(Step&);
  void backward(Step&, GradientExchange&);  // a finished parameter is handed to the exchange at once
  void find_nonfinite();                    // among the gradients, after their exchange
  // Of the last forward, of all heads if training; waits. finite: what find_nonfinite() saw.
  struct Outcome {
    LossReport loss;
    bool finite = true;
  };
  Outcome outcome(bool training);
  void commit(Step&);  // running statistics, after the ranks averaged shared_moments()
  // The first weight, else node, whose forward result is not finite, computed anew, else gradient; empty: all are.
  std::string first_nonfinite(Step&);

  Memory& memory() { return memory_; }
  std::vector<Param>& params() { return params_; }  // in backward order
  const std::vector<Param>& params() const { return params_; }
  std::vector<Statistic>& statistics() { return statistics_; }
  // All gradients, flat, where the host and an exchange on it read and write them: the device's own memory, or a copy,
  // made when first asked for, that backward() fills and store_gradients() brings back.
  std::span<float> gradients();
  void store_gradients();
  Tensor gradient_tensor() const;  // on the device
  Tensor shared_moments() const { return {shared_moments_, {1, 1, 1, shared_moment_count_}}; }
  std::vector<GradientSlice> slices() const;  // one per parameter, in order
  size_t arena_bytes() const { return arena_bytes_; }
  size_t parameter_bytes() const;  // masters, gradients, velocities, codes
  int64_t parameter_count() const { return parameter_count_; }
  Work work() const;  // of a step of this rank
  // One line per node: shape, encoding, bytes, parameters.
  std::string describe() const;

 private:
  class Builder;
  Graph graph_;
  const Policy& policy_;
  Backend& backend_;
  int64_t batch_;
  bool poison_;
  Memory memory_;
  std::vector<Param> params_;
  std::unique_ptr<WeightClips> weight_clips_;
  std::vector<Statistic> statistics_;
  int64_t image_floats_ = 0, classes_ = 0;
  float* images_ = nullptr;  // with labels_: where the host's cannot be read
  int32_t* labels_ = nullptr;
  std::unique_ptr<Upload> upload_;
  std::vector<float> loss_weights_;
  int32_t* nonfinite_ = nullptr;
  float* shared_moments_ = nullptr;
  int64_t shared_moment_count_ = 0;
  std::vector<float> gradient_copy_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::vector<size_t>> node_params_;  // by node: indices into params_
  std::vector<size_t> node_bytes_;                // by node: what it keeps and writes
  size_t arena_bytes_ = 0;
  int64_t parameter_count_ = 0;
};

}  // namespace octet
