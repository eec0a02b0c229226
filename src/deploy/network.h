// An integer network as data: tensors of 8-bit codes, and the operations between them in order. Writers of file formats
// walk it, and readers return it. docs/integer-network.md has the arithmetic of each operation.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/nodes/detection.h"
#include "src/graph/nodes/nodes.h"
#include "src/graph/plan.h"
#include "src/normalization.h"
#include "src/quant/integer_layer.h"

namespace octet {

struct IntegerTensor {
  Shape shape;  // of one image
  DType type;   // u8 or s8; f32: logits, or a detector's boxes
  float scale;  // the real value of a code
  bool operator==(const IntegerTensor&) const = default;
};

struct IntegerOperation {
  // linear: its logits are a classifier's output. sum: of two tensors, rounded once. Pools but `mean` keep the scale.
  enum class Kind : uint8_t { convolution, linear, sum, mean, pool, concat };
  Kind kind = Kind::convolution;
  std::string name;
  std::vector<int> inputs;  // indices of tensors; the second one of a convolution is its shortcut
  int output = 0;
  Activation activation = Activation::none;
  ConvProblem conv;    // of convolution, linear, sum (weights of 1, one for each channel) and mean
  PoolProblem pool;    // of pool
  IntegerLayer layer;  // of the same as `conv`
  bool computes() const { return kind != Kind::pool && kind != Kind::concat; }
};

struct IntegerNetwork {
  Normalization pixels;
  float input_range = 0;               // of a normalized pixel
  int input_highest = 127;             // code of a pixel
  std::vector<IntegerTensor> tensors;  // the first are the images' codes, the last of a classifier the logits
  std::vector<IntegerOperation> operations;
  std::optional<DenseDetectOptions> detector = {};  // its edges are tensors; none: a classifier
  std::vector<std::string> notes;                   // what is not as the training computes it, for people
};

// What a file holds.
struct NetworkFile {
  IntegerNetwork network;
  std::map<std::string, std::string> metadata;
};

// plan: of a network with IntegerPolicy. UsageError: a node has no such operation; the message names it.
IntegerNetwork integer_network(const Plan& plan, const Normalization& pixels);

// What IntegerPolicy needs, and the graph that computes the network under it, with a loss behind a classifier's logits.
// The ids of its edges are the indices of tensors.
IntegerLayers layers_of(const IntegerNetwork&);
Graph graph_of(const IntegerNetwork&, const Policy&, SoftmaxLossOptions loss = {});

// One of the files that an export writes.
struct NamedText {
  std::string ending, text;  // of the file's name
};

// The same network as files have it: signed codes begin at -128, where saturation begins, not at -127 as in training.
// The next two return such networks, too.
IntegerNetwork with_file_codes(IntegerNetwork);
// The same network with a rounding between each convolution and the sum with its shortcut, for formats whose
// convolutions have no shortcut. The codes between them are signed.
IntegerNetwork with_separate_sums(IntegerNetwork);
// The same network with signed codes everywhere: codes that were unsigned have half as many steps.
IntegerNetwork with_signed_codes(IntegerNetwork);

// The problem of a convolution that computes each channel alone: a sum, or a mean over the kernel.
ConvProblem channelwise(const Shape& x, const Shape& y, int kernel_h, int kernel_w);

// Appends an operation and its output, of codes with that type and scale or of logits. Its constants need weights,
// biases and their scales alone, those of a sum or a mean nothing.
void append_operation(IntegerNetwork&, IntegerOperation, DType, float scale);

// Empty if both are the same network with the same integers; else the first difference, for people.
std::string difference(const IntegerNetwork&, const IntegerNetwork&);

}  // namespace octet
