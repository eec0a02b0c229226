// A node is a coarse operation, such as a convolution with norm, activation and encoding. Forward and backward of a
// node are in one file. A node declares its memory before the first step and never allocates afterwards.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "src/graph/parameters.h"
#include "src/objects.h"
#include "src/quant/clip.h"
#include "src/quant/ranges.h"
#include "src/sample.h"

namespace octet {

struct Edge {  // a tensor between nodes
  int id = -1;
};
struct Slot {  // memory that one node uses
  int id = -1;
};
enum class Need : uint8_t { forward, backward, both };  // the passes that need a slot's bytes

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
  LoopLog* loops = nullptr;  // where loops are noted under the names of nodes and phases
  std::string node = {};     // whose loops run; empty: none
};
// Adds the time of its scope to one phase, and names the loops in it "node phase". Does nothing if `times` is null.
class Timed {
 public:
  Timed(PhaseTimes* times, Phase phase) : times_(times), phase_(phase) {
    if (!times_) return;
    if (times_->loops) times_->loops->name(times_->node + " " + name_of(phase));
    start_ = std::chrono::steady_clock::now();
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

// part: the gradient of a sum lies there, of which a mask says what passes on to this value; or only the gradients of
// pixels in even rows and columns, where the others are zeros.
enum class Written : uint8_t { nothing, part, all };

// The addresses of all tensors of a plan.
struct Memory {
  std::vector<Tensor> slots;      // no data: only backward uses the slot, and the plan has no backward
  std::vector<QTensor> values;    // by edge
  std::vector<Tensor> gradients;  // by edge; no data: no node needs this gradient
  std::vector<Written> written;   // by edge: what this step has written of the gradient
  std::vector<Tensor> masks;      // by edge: of a gradient that is Written::part, see Declare::shares_gradient()
  std::vector<bool> even;         // by edge: which part that is, see Declare::leaves_gaps()
  std::vector<NormSums> sums;     // by edge: of the norm behind it, which forward writes; no x: it needs none
  std::vector<void*> inputs;      // by Declare::input()
  LossReport* losses = nullptr;   // by Declare::loss(); on the device
};

// The least work of a step, whatever the kernels do. Bytes are those read and those written, if each pass reads or
// writes each of its operands once.
struct Work {
  int64_t products = 0, real_products = 0;  // multiply-adds of all convolution passes, and of those in f32
  int64_t convolution_bytes = 0;
  int64_t pass_bytes = 0;    // norm, residual, activation and encoding, forward and backward
  int64_t update_bytes = 0;  // update and encoding of weights
};

// What holds ranges from step to step. Null where the policy needs none.
struct HeldRanges {
  ClipCoordinator* gradients = nullptr;
  ActivationRanges* activations = nullptr;
};

// The context of one step. It is passed to the nodes and never stored.
struct Step {
  Backend& backend;
  Memory& memory;
  HeldRanges held;
  PhaseTimes* times = nullptr;
  uint32_t index = 0;
  bool training = true;
  bool measures = true;  // ranges of activations that are not known, and the share of values beyond the known ones
  uint64_t seed = 0;
  int64_t first_sample = 0;      // index of this rank's first sample in the global batch
  float gradient_scale = 1;      // loss scale / global batch
  const void* images = nullptr;  // on the device, see Declare::pixels()

  QTensor value(Edge edge) const { return memory.values[edge.id]; }
  // Gradient with respect to the edge; complete once the edge's producer runs backward, or Written::part.
  Tensor gradient(Edge edge) const { return memory.gradients[edge.id]; }
  bool is_part(Edge edge) const { return memory.written[size_t(edge.id)] == Written::part; }
  Tensor mask(Edge edge) const { return memory.masks[size_t(edge.id)]; }  // of such a gradient; empty: all passes
  void write_part(Edge edge) const { memory.written[size_t(edge.id)] = Written::part; }
  Into into(Edge) const;  // in each step the first caller writes, later callers add
  // For who writes the edge's gradient last, and for the edge's producer; null: it has no norm that needs sums.
  NormSums* sums(Edge edge) const {
    NormSums& of_edge = memory.sums[size_t(edge.id)];
    return of_edge.x ? &of_edge : nullptr;
  }
  Tensor tensor(Slot slot) const { return memory.slots[slot.id]; }
  // Calls pass(encoding, probe) once, with the range that is held if `range` is an index of ActivationRanges.
  void encode(int range, const Encoding& encoding, const std::function<void(const Encoding&, Probe)>& pass) const {
    if (range < 0) return pass(encoding, {});
    held.activations->encode(range, encoding, measures, pass);
  }
  // within: index of the tensor's first image in this rank's batch.
  RngKey key(int node, Role role, int64_t elements_per_sample, int64_t within = 0) const {
    return {seed,
            index,
            layer_id_of(node, role),
            static_cast<uint64_t>((first_sample + within) * elements_per_sample),
            static_cast<uint64_t>(elements_per_sample),
            static_cast<uint64_t>(within)};
  }
};

// The weight of a loss and the names of its metrics.
struct LossOptions {
  std::string name = {};      // of a metric of its own, beside the sum of all losses; reports of one name are added
  std::string compared = {};  // of a metric of its own: LossReport::count
  float weight = 1;
  bool training_only = false;          // an auxiliary loss: evaluation does not count it
  std::vector<std::string> hits = {};  // names of the first of LossReport::hits; empty: only the loss is reported
};

// The interface through which Node::declare() reserves memory and parameters.
class Declare {
 public:
  virtual ~Declare() = default;
  virtual const Policy& policy() const = 0;
  virtual Parameters& parameters() const = 0;
  virtual bool training() const = 0;        // false: the plan never runs backward
  virtual int64_t images() const = 0;       // of the plan's batch; a node may have several rows for each
  virtual int64_t norm_groups() const = 0;  // equal parts of the batch; each has norm statistics of its own
  virtual DType storage() const = 0;        // of convolution outputs, see PlanOptions
  // How the bytes of a batch's images are real numbers; null: the images are (batch, H, W, 3) f32.
  virtual const PixelScale* pixels() const = 0;
  virtual bool is_pixels(Edge) const = 0;  // the value is those bytes, which all its readers take
  virtual Shape shape(Edge) const = 0;
  virtual const Encoding& encoding(Edge) const = 0;
  virtual bool needs_gradient(Edge) const = 0;  // the gradient reaches a trained parameter
  virtual bool needs_backward() const = 0;      // this node has trained parameters, or an input that needs a gradient
  virtual void reads_in_backward(Edge) = 0;
  virtual bool writes_last(Edge) const = 0;  // no other node writes to this gradient after this one
  // This node adds an input to what it computes, and then masks the sum. True: the gradient of that input is the sum's
  // where it lies, with the mask, so that the node calls Step::write_part() in place of writing it. So it is where no
  // other node has written to the input's gradient before, and the next that reads or writes it takes parts.
  virtual bool shares_gradient(Edge input, Slot mask) = 0;
  // This node's gradient of an input is that of pixels in even rows and columns. True: it writes no others, and calls
  // Step::write_part(), under the same conditions.
  virtual bool leaves_gaps(Edge input) = 0;
  virtual Slot keep(Shape, DType, Need) = 0;
  // Reserves memory that is not in the arena: load() or the host's work fills it. Returns an index into
  // Memory::inputs.
  virtual int input(size_t bytes) = 0;
  // Registers a layer's grad_output with the ClipCoordinator, which also scales the learning rate of the layer's
  // weight. Returns -1 if there is no coordinator.
  virtual int clip_layer(const std::string& name, int weight_param) = 0;
  // Registers the range of a node's output if the encoding of it lacks one. Returns an index into ActivationRanges, or
  // -1.
  virtual int activation_range(const std::string& name, Edge output, const Encoding&) = 0;
  // Reserves a LossReport and returns its index.
  virtual int loss(const LossOptions&) = 0;
};

// What a value in Parameters is to the node that has it. Gamma, beta and the two that run are a norm's. A range is that
// of the node's output, see ActivationRanges.
enum class ParamRole : uint8_t { weight, bias, gamma, beta, running_mean, running_variance, range };
struct NodeParam {
  ParamRole role;
  std::string name;  // of a Param or a Statistic
};
// The range of a node's output is a Statistic of this name.
inline std::string range_name(const std::string& node) { return node + ".range"; }

class Node {
 public:
  Node(std::string name, std::vector<Edge> inputs, Edge output)
      : name_(std::move(name)), inputs_(std::move(inputs)), output_(output) {}
  virtual ~Node() = default;

  virtual std::string kind() const = 0;  // "conv 3x3/2", for `octet plan`
  // The node's attributes, such as PoolOptions; null: the node is of another kind. Each kind has a type of its own.
  template <class Options>
  const Options* as() const;
  // The parameters and statistics with which the node computes. Nodes of one layer list the same ones. The range is
  // known once a plan has declared the node.
  virtual std::vector<NodeParam> params() const {
    return range_ < 0 ? std::vector<NodeParam>{} : std::vector<NodeParam>{{ParamRole::range, range_name(name_)}};
  }
  // Checks the shapes of the inputs and returns the shape of the output. Shapes include the plan's batch.
  virtual Shape output_shape(const std::vector<Shape>& inputs) = 0;
  virtual bool reads_real(const Policy&, Edge) const { return false; }  // this input must be f32
  virtual bool reads_pixels(const Policy&) const { return false; }      // its first input may be bytes of images
  virtual bool keeps_encoding() const { return false; }                 // the output has the encoding of the inputs
  virtual bool never_negative() const { return false; }                 // the output is >= 0 for any input
  virtual bool writes_real() const { return false; }                    // the output is f32 for any consumer
  virtual bool trains() const { return false; }                         // has parameters that are not frozen
  virtual void freeze() {}                                              // its parameters are never trained
  // Its backward pass takes a masked gradient of its output, or adds to a part of an input's.
  virtual bool takes_parts(Edge) const { return false; }
  virtual bool differentiable() const { return true; }            // false: no gradient passes to the inputs
  virtual bool writes_gradient_forward() const { return false; }  // a loss: forward writes the gradients of its inputs
  virtual void declare(Declare&) {}
  virtual void bind(Parameters&) {}  // called after the parameters are allocated
  // Runs before forward, outside Backend::run(). Checks the targets and copies them to the device.
  virtual void load(const Targets&, Step&) {}
  virtual void forward(Step&) = 0;
  virtual void backward(Step&) {}  // not called where Declare::needs_backward() is false
  // Called after a step that was not skipped. Lists the norm statistics that the backend then updates.
  virtual void update_statistics(Step&, std::vector<RunningStep>&) {}
  // Adds what was found on the images of the last load(). Runs after forward, outside Backend::run().
  virtual void detect(const Step&, std::vector<Detection>&) const {}
  // What a classifier says of each sample of the last load(), (samples, classes); empty: the node gives none. Runs as
  // detect() does.
  virtual std::vector<float> logits(const Step&) const { return {}; }
  virtual Work work(const Memory&) const { return {}; }
  virtual Tensor watched(const Step&) const { return {}; }  // the first result of forward; plans search it for NaN

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
  int range_ = -1;  // by Declare::activation_range()
};

// The base of all nodes of one kind.
template <class Options>
class NodeOf : public Node {
 public:
  NodeOf(std::string name, std::vector<Edge> inputs, Edge output, Options options)
      : Node(std::move(name), std::move(inputs), output), options_(std::move(options)) {}
  const Options& options() const { return options_; }

 protected:
  Options options_;
};

template <class Options>
const Options* Node::as() const {
  const auto* const node = dynamic_cast<const NodeOf<Options>*>(this);
  return node ? &node->options() : nullptr;
}

}  // namespace octet
