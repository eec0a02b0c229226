// The kernels of each instruction set of the CPU backend.
#pragma once
#include "kernels/backend.h"

namespace octet::cpu {

struct ContractionKernels;
struct Passes;
struct BlockLoops;
struct ChunkedSums;
struct DetectionLoops;
struct DepthwiseCodes;

// One row of the table in isa.cpp: all that the gradient exchange needs.
struct IsaRow {
  const char* name;
  bool (*available)();  // on this processor and operating system
  const BlockLoops* blocks = nullptr;
};
const IsaRow& row_of(Isa);  // UsageError where this processor cannot run it

// One row of the table in isa_kernels.cpp.
struct IsaKernels {
  const ContractionKernels *codes = nullptr, *depthwise = nullptr, *real = nullptr, *digits = nullptr;
  const Passes* passes = nullptr;
  const ChunkedSums* chunked = nullptr;
  const DetectionLoops* detection = nullptr;
  const DepthwiseCodes* depthwise_codes = nullptr;  // or null: `depthwise` computes them
};
const IsaKernels& kernels_of(Isa);  // UsageError where this processor cannot run it

}  // namespace octet::cpu
