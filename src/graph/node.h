// A node is coarse: forward beside backward in one file. It declares its memory before the first step and never
// allocates afterwards.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "src/graph/parameters.h"
#include "src/quant/clip.h"
#include "src/sample.h"

namespace octet {

struct Edge {  // a value between nodes
  int id = -1;
};
struct Slot {  // memory of a node's own
  int id = -1;
};
enum class Need : uint8_t { forward, backward, both };  // when a slot's bytes must survive

enum class Phase : uint8_t {
  data_wait,
  forward,
  backward_data,
  backward_weight,
  passes,  // norms, activations, residual sums, pools, dropout, concatenations
  quantize,
  exchange,
  update,
  count
};
const char* name_of(Phase);
struct PhaseTimes {
  double seconds[static_cast<int>(Phase::count)] = {};
};
// Adds the time of its scope to one phase; does nothing without a PhaseTimes.
class Timed {
 public:
  Timed(PhaseTimes* times, Phase phase) : times_(times), phase_(phase) {
    if (times_) start_ = std::chrono::steady_clock::now();
  }
  ~Timed() {
    if (times_)
      times_->seconds[static_cast<int>(phase_)] +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  PhaseTimes* times_;
  Phase phase_;
  std::chrono::steady_clock::time_point start_;
};

// Where the plan put things. An address look-up is an index and an addition.
struct Memory {
  std::vector<Tensor> slots;      // no data: the plan never runs backward, which alone uses it
  std::vector<QTensor> values;    // by edge
  std::vector<Tensor> gradients;  // by edge; no data: no node needs it
  std::vector<bool> written;      // by edge: this step has already written a gradient there
  std::vector<void*> inputs;      // by Declare::input()
  LossReport* losses = nullptr;   // by Declare::loss(); on the device
};

// What a step has to do at least, whatever the kernels. Bytes are those read and written if each pass moves each of its
// operands once.
struct Work {
  int64_t products = 0, real_products = 0;  // multiply-adds of all convolution passes, and those of f32 ones
  int64_t convolution_bytes = 0;
  int64_t pass_bytes = 0;    // norm, residual, activation, encoding, and their backward
  int64_t update_bytes = 0;  // of weights, and their encoding
};

// What one step knows; passed down, never stored.
struct Step {
  Backend& backend;
  Memory& memory;
  ClipCoordinator* clips = nullptr;  // null when the policy holds no clips
  PhaseTimes* times = nullptr;
  uint32_t index = 0;
  bool training = true;
  uint64_t seed = 0;
  int64_t first_sample = 0;       // of this rank, in the global batch
  float gradient_scale = 1;       // loss scale / global batch
  const float* images = nullptr;  // on the device

  QTensor value(Edge) const;
  Tensor gradient(Edge) const;  // of this edge: complete by the time its producer runs backward
  Into into(Edge) const;        // the first caller of a step writes, later callers add
  Tensor tensor(Slot) const;
  RngKey key(int node, Role role, int64_t elements_per_sample) const {
    return {seed, index, random_stream(node, role), static_cast<uint64_t>(first_sample * elements_per_sample),
            static_cast<uint64_t>(elements_per_sample)};
  }
};

// How a loss counts, and what its figures are called.
struct LossOptions {
  float weight = 1;
  bool training_only = false;     // an auxiliary loss: no part of the figures of a test
  std::vector<std::string> hits;  // names of the first LossReport::hits; empty: only the loss is reported
};

// Handed to Node::declare, once.
class Declare {
 public:
  virtual ~Declare() = default;
  virtual const Policy& policy() const = 0;
  virtual Parameters& parameters() const = 0;
  virtual DType storage() const = 0;  // of convolution outputs, see PlanOptions
  virtual Shape shape(Edge) const = 0;
  virtual const Encoding& encoding(Edge) const = 0;
  virtual bool needs_gradient(Edge) const = 0;
  virtual void reads_in_backward(Edge) = 0;
  virtual Slot keep(Shape, DType, Need) = 0;
  // Memory that load() fills, outside the arena; see Memory::inputs.
  virtual int input(size_t bytes) = 0;
  // Registers a layer's gradient with the ClipCoordinator; the learning rate of its weight is scaled by what is found.
  // -1: there is no coordinator.
  virtual int clip_layer(const std::string& name, int weight_param) = 0;
  // A LossReport. The first one's count is the step's.
  virtual int loss(const LossOptions&) = 0;
};

class Node {
 public:
  Node(std::string name, std::vector<Edge> inputs, Edge output)
      : name_(std::move(name)), inputs_(std::move(inputs)), output_(output) {}
  virtual ~Node() = default;

  virtual std::string kind() const = 0;  // "conv 3x3/2", for `octet plan`
  // Checks the inputs; shapes hold for the plan's batch.
  virtual Shape output_shape(const std::vector<Shape>& inputs) = 0;
  virtual bool reads_real(const Policy&, Edge) const { return false; }  // that input must be real-valued
  virtual bool keeps_encoding() const { return false; }                 // its output is encoded as its inputs are
  virtual bool never_negative() const { return false; }                 // its output, whatever its inputs are
  virtual bool writes_real() const { return false; }                    // its output is real-valued, whatever reads it
  virtual bool writes_gradient_forward() const { return false; }        // a loss: forward writes its inputs' gradients
  virtual void declare(Declare&) = 0;
  virtual void bind(Parameters&) {}  // after the parameters are allocated
  // Before forward, outside Backend::run(): checks the targets and brings them to the device.
  virtual void load(const Targets&, Step&) {}
  virtual void forward(Step&) = 0;
  virtual void backward(Step&) = 0;
  virtual void update_statistics(Step&) {}  // after a step that was not skipped
  virtual Work work(const Memory&) const { return {}; }
  virtual Tensor watched(const Step&) const { return {}; }  // forward's first result, searched for non-finite numbers

  const std::string& name() const { return name_; }
  const std::vector<Edge>& inputs() const { return inputs_; }
  Edge output() const { return output_; }
  int index() const { return index_; }
  void set_index(int index) { index_ = index; }

 protected:
  std::string name_;
  std::vector<Edge> inputs_;
  Edge output_;
  int index_ = 0;
};

}  // namespace octet
