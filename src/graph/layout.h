// The decisions of a plan that are made once, before memory is allocated: the shape and encoding of every edge, and the
// lifetime and arena offset of every memory block.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "src/graph/arena.h"
#include "src/graph/graph.h"

namespace octet {

struct PlanOptions {
  // The type of convolution outputs and edge gradients under an int8 policy; other policies use f32. With s8, edge
  // gradients are bf16. Convolution outputs are then bf16 too, until forward has written the codes that backward reads.
  DType storage = DType::bf16;
  int64_t norm_group = 0;                 // images that share the statistics of a norm in training; 0: the batch
  bool training = true;                   // false: forward only; nothing is kept for backward
  bool gradients_in_parts = true;         // see Written::part
  bool own_slots = false;                 // no two blocks share memory
  bool poison = false;                    // the arena is filled with NaN before each step
  std::optional<PixelScale> pixels = {};  // see Declare::pixels()
};

struct Layout {
  // Declares the nodes' memory and parameters. batch: samples per rank.
  Layout(Graph&, Parameters&, const Policy&, const HeldRanges&, int64_t batch, const PlanOptions&);

  // Sets the addresses in `memory` to places in the arena. scales: (edges) floats.
  void bind(Memory& memory, std::byte* arena, float* scales) const;

  static constexpr size_t no_block = SIZE_MAX;
  std::vector<Shape> shapes;        // by edge
  std::vector<Encoding> encodings;  // by edge
  std::vector<MemoryBlock> blocks;
  int pixel_edge = -1;  // the edge that is the images' bytes as they are given, without a block; or -1
  std::vector<size_t> slot_block, value_block, gradient_block;  // indices into blocks: by slot, by edge, by edge
  std::vector<size_t> input_bytes;                              // by Declare::input()
  std::vector<LossOptions> losses;                              // by Declare::loss()
  struct Shared {
    Edge input, sum;
    Slot mask;
  };
  std::vector<Shared> shared;           // by Declare::shares_gradient(), in the order of the nodes
  std::vector<int64_t> range_elements;  // by ActivationRanges' layer: of this plan
  std::vector<bool> needs_backward;     // by node, see Declare::needs_backward()
  std::vector<size_t> node_bytes;       // by node: bytes that the node keeps and writes
  size_t arena_bytes = 0;
  Memory memory;  // shapes and types; bind() sets the addresses
};

}  // namespace octet
