// The static plan: decides once, at start, every edge's encoding, every buffer's lifetime and place in one arena, and the
// order of parameters, which is the order of the gradient buckets. A step is then two loops over nodes.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "src/graph/graph.h"

namespace octet {

struct PlanOptions {
  DType storage = DType::bf16;  // of convolution outputs and edge gradients of an int8 policy; fp32 keeps f32
  bool own_slots = false;       // no two slots share memory
  bool poison = false;          // the arena is filled with NaN before each step
  bool allocate = true;         // false: only describe
};

class Plan {
 public:
  // batch: samples of this rank. clips may be null when the policy holds none.
  Plan(Graph, const Policy&, Backend&, ClipCoordinator* clips, int64_t batch, const PlanOptions&);
  ~Plan();

  // Fills masters by each parameter's Init, as a function of (seed, parameter, element); velocities become 0.
  void initialize_parameters(uint64_t seed);

  void encode_weights(Step&);
  void forward(Step&);
  void backward(Step&, GradientExchange&);  // a finished parameter is handed to the exchange at once
  void commit(Step&);                       // running statistics, after the ranks averaged shared_moments()
  // The first node whose forward result is not finite; empty: all are.
  std::string first_nonfinite(Step&);

  Memory& memory() { return memory_; }
  std::vector<Param>& params() { return params_; }          // in backward order
  std::vector<Statistic>& statistics() { return statistics_; }
  std::span<float> gradients();                             // all of them, flat
  std::span<float> shared_moments() { return shared_moments_; }
  std::vector<GradientSlice> slices() const;                // one per parameter, in order
  size_t arena_bytes() const { return arena_bytes_; }
  size_t parameter_bytes() const;                           // masters, gradients, velocities, codes
  int64_t parameter_count() const { return parameter_count_; }
  Work work() const;  // of a step of this rank
  // One line per node: shape, encoding, bytes, gradient bucket.
  std::string describe(size_t bucket_bytes) const;

 private:
  class Builder;
  Graph graph_;
  const Policy& policy_;
  Backend& backend_;
  int64_t batch_;
  bool poison_;
  Memory memory_;
  std::vector<Param> params_;
  std::vector<Statistic> statistics_;
  std::vector<float> shared_moments_;
  std::vector<float> scales_;  // of edges and per-tensor weights
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::vector<size_t>> node_params_;  // by node: indices into params_
  std::vector<size_t> node_bytes_;                // by node: what it keeps and writes
  size_t arena_bytes_ = 0;
  int64_t parameter_count_ = 0;
};

}  // namespace octet
