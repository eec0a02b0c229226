#include "kernels/cpu/conv_table.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/isa.h"

namespace octet::cpu {

std::unique_ptr<Convolution> make_int8_convolution(Isa isa, int threads) {
  const IsaRow& row = row_of(isa);
  return std::make_unique<TableConvolution>(*row.codes, row.depthwise, threads);
}

std::unique_ptr<Convolution> make_fixed_order_convolution(Isa isa, int threads) {
  return std::make_unique<TableConvolution>(*row_of(isa).real, nullptr, threads);
}

}  // namespace octet::cpu
