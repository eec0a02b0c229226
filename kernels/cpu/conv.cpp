#include "kernels/cpu/conv.h"

#include "kernels/cpu/conv_table.h"

namespace octet::cpu {
namespace {

struct Tier {
  const ContractionKernels &codes, &depthwise, &real;
};

Tier tier_of(Isa isa) {
  require_available(isa);
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx2:
      return {avx2::code_kernels, avx2::depthwise_kernels, avx2::real_kernels};
    case Isa::avx512_vnni:
      return {avx512::code_kernels, avx512::depthwise_kernels, avx512::real_kernels};
    case Isa::amx:
      return {amx::code_kernels, avx512::depthwise_kernels, avx512::real_kernels};
#elif defined(__aarch64__)
    case Isa::neon_dot:
      return {neon_dot::code_kernels, neon_dot::depthwise_kernels, neon_dot::real_kernels};
#endif
    default:
      return {scalar::code_kernels, scalar::depthwise_kernels, scalar::real_kernels};
  }
}

}  // namespace

std::unique_ptr<Convolution> make_int8_convolution(Isa isa, int threads) {
  const Tier tier = tier_of(isa);
  return std::make_unique<TableConvolution>(tier.codes, &tier.depthwise, threads);
}

std::unique_ptr<Convolution> make_fixed_order_convolution(Isa isa, int threads) {
  return std::make_unique<TableConvolution>(tier_of(isa).real, nullptr, threads);
}

}  // namespace octet::cpu
