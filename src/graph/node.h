// A node is coarse: forward beside backward in one file. It books its memory in declare() and never allocates
// afterwards.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "src/graph/param.h"
#include "src/quant/clip.h"
#include "src/quant/policy.h"

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
  norm,
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
  std::vector<Tensor> slots;
  std::vector<QTensor> values;    // by edge
  std::vector<Tensor> gradients;  // by edge; no data: nobody wants it
  std::vector<bool> written;      // by edge: a gradient of this step stands there already
  LossReport* losses = nullptr;   // by Declare::loss(); on the device
};

// What a step has to do at least, whatever the kernels: the multiply-adds of all convolution passes, those on real
// numbers among them, and the bytes read and written if each pass moves each of its operands once.
struct Work {
  int64_t products = 0, real_products = 0;
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
  float gradient_scale = 1;       // 1 / global batch
  const float* images = nullptr;  // on the device
  const int32_t* labels = nullptr;

  QTensor value(Edge) const;
  Tensor gradient(Edge) const;  // of this edge: complete by the time its producer runs backward
  Into into(Edge) const;        // the first caller of a step writes, later callers add
  Tensor tensor(Slot) const;
  RngKey key(int node, Role role, int64_t elements_per_sample) const {
    return {seed, index, static_cast<uint32_t>(node) * 8 + static_cast<uint32_t>(role),
            static_cast<uint64_t>(first_sample * elements_per_sample), static_cast<uint64_t>(elements_per_sample)};
  }
};

// Handed to Node::declare, once.
class Declare {
 public:
  virtual ~Declare() = default;
  virtual const Policy& policy() const = 0;
  virtual DType storage() const = 0;  // of convolution outputs, see PlanOptions
  virtual Shape shape(Edge) const = 0;
  virtual const Encoding& encoding(Edge) const = 0;
  virtual bool needs_gradient(Edge) const = 0;
  virtual void reads_in_backward(Edge) = 0;
  virtual Slot keep(Shape, DType, Need) = 0;
  virtual int param(const std::string& name, ParamKind, Shape, Init, const Encoding&, bool spared) = 0;
  virtual int statistic(const std::string& name, int64_t channels, float initial, bool of_training = false) = 0;
  // (2 * channels) floats that every rank averages after backward: batch mean and variance of a norm, for example.
  virtual int shared_moments(int64_t channels) = 0;
  // Books a held clip with the coordinator; the weight's learning rate is scaled by what is found for it.
  virtual int clip_layer(const std::string& name, int weight_param) = 0;
  // Books a report; the first one's figures are the step's, others add their weighted loss.
  virtual int loss(float weight) = 0;
};

// Pointers that a node asks for again when the plan has allocated everything.
class Bound {
 public:
  virtual ~Bound() = default;
  virtual Param& param(int) = 0;
  virtual Statistic& statistic(int) = 0;
  virtual float* shared_moments(int) = 0;
};

class Node {
 public:
  Node(std::string name, std::vector<Edge> inputs, Edge output)
      : name_(std::move(name)), inputs_(std::move(inputs)), output_(output) {}
  virtual ~Node() = default;

  virtual std::string kind() const = 0;  // "conv 3x3/2", for `octet plan`
  // Checks the inputs; shapes hold for the plan's batch.
  virtual Shape output_shape(const std::vector<Shape>& inputs) = 0;
  virtual bool quantized(const Policy&) const { return false; }         // it contracts codes
  virtual bool reads_real(const Policy&, Edge) const { return false; }  // that input must be real-valued
  virtual bool keeps_encoding() const { return false; }                 // its output is encoded as its inputs are
  virtual bool never_negative() const { return false; }                 // its output, whatever its inputs are
  virtual bool writes_real() const { return false; }                    // its output is real-valued whatever reads it
  virtual void declare(Declare&) = 0;
  virtual void bind(Bound&) {}
  virtual void forward(Step&) = 0;
  virtual void backward(Step&) = 0;
  virtual void commit(Step&) {}  // after a step that counts: running statistics
  virtual Work work(const Memory&) const { return {}; }
  virtual Tensor watched(const Step&) const { return {}; }  // forward's rawest result, searched for non-finite numbers

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
