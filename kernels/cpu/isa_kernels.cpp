// The kernels of each instruction set.
#include "kernels/cpu/chunked_sums.h"
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/depthwise_codes.h"
#include "kernels/cpu/detection_loops.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/passes.h"

namespace octet::cpu {

// Each tier, a namespace of its own, defines what it has of these.
#define OCTET_TIER_KERNELS(tier)                                                                \
  namespace tier {                                                                              \
  extern const ContractionKernels code_kernels, depthwise_kernels, real_kernels, digit_kernels; \
  extern const Passes pass_kernels;                                                             \
  extern const ChunkedSums chunked_sums;                                                        \
  extern const DetectionLoops detection_loops;                                                  \
  extern const DepthwiseCodes depthwise_codes;                                                  \
  }
OCTET_TIER_KERNELS(scalar)
OCTET_TIER_KERNELS(avx2)
OCTET_TIER_KERNELS(avx_vnni)
OCTET_TIER_KERNELS(avx512)
OCTET_TIER_KERNELS(amx)
OCTET_TIER_KERNELS(neon_dot)
OCTET_TIER_KERNELS(neon_i8mm)
#undef OCTET_TIER_KERNELS

namespace {

#if defined(__x86_64__)
#define OCTET_X86(...) __VA_ARGS__
#else
#define OCTET_X86(...)
#endif
#if defined(__aarch64__)
#define OCTET_ARM(...) __VA_ARGS__
#else
#define OCTET_ARM(...)
#endif

// In the order of enum Isa; empty where row_of() refuses. The scalar tier's passes are vectors of 128 bits, which every
// x86-64 and aarch64 processor has.
// clang-format off
constexpr IsaKernels table[] = {
    {&scalar::code_kernels, &scalar::depthwise_kernels, &scalar::real_kernels, &scalar::digit_kernels,
     &scalar::pass_kernels, &scalar::chunked_sums, &scalar::detection_loops},
    {OCTET_X86(&avx2::code_kernels, &avx2::depthwise_kernels, &avx2::real_kernels, &avx2::digit_kernels,
               &avx2::pass_kernels, &avx2::chunked_sums, &avx2::detection_loops)},
    {OCTET_X86(&avx_vnni::code_kernels, &avx2::depthwise_kernels, &avx2::real_kernels, &avx_vnni::digit_kernels,
               &avx2::pass_kernels, &avx2::chunked_sums, &avx2::detection_loops)},
    {OCTET_X86(&avx512::code_kernels, &avx512::depthwise_kernels, &avx512::real_kernels, &avx512::digit_kernels,
               &avx512::pass_kernels, &avx512::chunked_sums, &avx512::detection_loops, &avx512::depthwise_codes)},
    {OCTET_X86(&amx::code_kernels, &avx512::depthwise_kernels, &avx512::real_kernels, &avx512::digit_kernels,
               &avx512::pass_kernels, &avx512::chunked_sums, &avx512::detection_loops, &avx512::depthwise_codes)},
    {OCTET_ARM(&neon_dot::code_kernels, &neon_dot::depthwise_kernels, &neon_dot::real_kernels, &neon_dot::digit_kernels,
               &scalar::pass_kernels, &scalar::chunked_sums, &scalar::detection_loops)},
    {OCTET_ARM(&neon_i8mm::code_kernels, &neon_dot::depthwise_kernels, &neon_dot::real_kernels,
               &neon_dot::digit_kernels, &scalar::pass_kernels, &scalar::chunked_sums, &scalar::detection_loops)},
};
// clang-format on

}  // namespace

const IsaKernels& kernels_of(Isa isa) {
  row_of(isa);
  return table[static_cast<size_t>(isa)];
}

}  // namespace octet::cpu
