// What is decided once about a plan, before any memory exists: the shape and encoding of every edge, the lifetime of
// every block of memory, and its place in the arena.
#pragma once
#include <memory>
#include <vector>

#include "src/graph/arena.h"
#include "src/graph/graph.h"

namespace octet {

struct PlanOptions {
  // Of convolution outputs and edge gradients of an int8 policy; the others keep f32. With s8, gradients are bf16, and
  // convolution outputs are bf16 until the codes that backward reads are written.
  DType storage = DType::bf16;
  bool training = true;    // false: forward alone, so nothing is kept for backward
  bool own_slots = false;  // no two blocks share memory
  bool poison = false;     // the arena is filled with NaN before each step
};

struct Layout {
  // Declares the nodes' memory and parameters. batch: samples of this rank; clips may be null.
  Layout(Graph&, Parameters&, const Policy&, ClipCoordinator* clips, int64_t batch, const PlanOptions&);

  // Points `memory` into the arena; scales: (edges) floats.
  void bind(Memory& memory, std::byte* arena, float* scales) const;

  static constexpr size_t no_block = SIZE_MAX;
  std::vector<Shape> shapes;        // by edge
  std::vector<Encoding> encodings;  // by edge
  std::vector<MemoryBlock> blocks;
  std::vector<size_t> slot_block, value_block, gradient_block;  // by slot, edge and edge: indices into blocks
  std::vector<size_t> input_bytes;                              // by Declare::input()
  std::vector<LossOptions> losses;                              // by Declare::loss()
  std::vector<size_t> node_bytes;                               // by node: what it keeps and writes
  size_t arena_bytes = 0;
  Memory memory;  // shapes and types; without addresses
};

}  // namespace octet
