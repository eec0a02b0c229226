// Quantization.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/encode_tensor.h"

namespace octet::cuda {

void CudaBackend::compute(const QuantizeCall& call) {
  const auto& [from, encoding, key, to, probe] = call;
  const PlainValues values{from.data, from.dtype};
  const int64_t count = from.elements();
  const TensorEncoder encoder{encoding, to, encoding.quantized() ? ranges_.get<ClipRange>(1) : nullptr, stream_};
  if (encoding.quantized()) encoder.find_range(values, count);
  encoder.count_magnitudes(values, count, probe);
  forget_transposed(to.values.data, to.values.bytes());
  encoder.encode(values, count, of_step(key), probe);
}

}  // namespace octet::cuda
