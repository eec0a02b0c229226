// Kernels whose instructions are emulated in C++, so that x86-64 processors without them run their text.
#pragma once
#include "kernels/cpu/contraction.h"

namespace octet::cpu {
namespace amx_emulated {  // packs with AVX-512 VNNI
extern const ContractionKernels code_kernels;
}
namespace avx_vnni_emulated {  // multiplies with AVX-512 VNNI
extern const ContractionKernels code_kernels, digit_kernels;
}
namespace neon_dot {
extern const ContractionKernels code_kernels, real_kernels, depthwise_kernels, digit_kernels;
}
namespace neon_i8mm {
extern const ContractionKernels code_kernels;
}
}  // namespace octet::cpu
