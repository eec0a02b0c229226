#include "kernels/cpu/conv.h"

#include "kernels/cpu/conv_table.h"

namespace octet::cpu {
namespace {

void require_available(Isa isa) {
  REQUIRE(isa <= best_isa(), say("choose ", name_of(best_isa()), " or a simpler one"), "this processor cannot run ",
          name_of(isa));
}

}  // namespace

std::unique_ptr<Convolution> make_int8_convolution(Isa isa, int threads) {
  require_available(isa);
  switch (isa) {
    case Isa::scalar:
      return std::make_unique<TableConvolution>(scalar::code_kernels, &scalar::depthwise_kernels, threads);
    case Isa::avx2:
      return std::make_unique<TableConvolution>(avx2::code_kernels, &avx2::depthwise_kernels, threads);
    case Isa::amx:
      return std::make_unique<TableConvolution>(amx::code_kernels, &avx512::depthwise_kernels, threads);
    default:
      return std::make_unique<TableConvolution>(avx512::code_kernels, &avx512::depthwise_kernels, threads);
  }
}

std::unique_ptr<Convolution> make_fixed_order_convolution(Isa isa, int threads) {
  require_available(isa);
  const ContractionKernels& kernels = isa == Isa::scalar ? scalar::real_kernels
                                      : isa == Isa::avx2 ? avx2::real_kernels
                                                         : avx512::real_kernels;
  return std::make_unique<TableConvolution>(kernels, nullptr, threads);
}

}  // namespace octet::cpu
