#include "kernels/cpu/conv.h"
#include "kernels/cpu/conv_table.h"

namespace octet::cpu {

std::unique_ptr<Convolution> make_int8_convolution(Isa isa, int threads) {
  switch (isa) {
    default:
      return std::make_unique<TableConvolution>(avx512::code_kernels, threads);
  }
}
std::unique_ptr<Convolution> make_fixed_order_convolution(Isa isa, int threads) {
  switch (isa) {
    default:
      return std::make_unique<TableConvolution>(avx512::real_kernels, threads);
  }
}

}  // namespace octet::cpu
