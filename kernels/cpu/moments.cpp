// Moments of real-valued outputs.
#include <algorithm>

#include "kernels/cpu/convolution.h"
#include "kernels/cpu/parallel.h"
#include "kernels/host_moments.h"

namespace octet::cpu {

// Chunks of pixels, whose number depends on the shape only, are combined in order.
void measure_moments(const Threads& threads, const float* values, Shape shape, Moments moments, Scratch& scratch) {
  const int64_t pixels = shape.pixels(), channels = shape.c, chunk = 512, chunks = (pixels + chunk - 1) / chunk;
  const bool extremes = moments.min != nullptr || moments.max != nullptr;
  double* const parts = scratch.get<double>(static_cast<size_t>(chunks * channels * 3));
  parallel_pieces(threads, pixels, chunk, [=](int64_t first, int64_t count) {
    double *const sum = parts + first / chunk * channels * 3, *const square = sum + channels;
    float *const low = reinterpret_cast<float*>(square + channels), *const high = low + channels;
    const float* const from = values + first * channels;
    std::fill_n(sum, 2 * channels, 0.0);
    for (int64_t p = 0; p < count; ++p)
      for (int64_t c = 0; c < channels; ++c) {
        const double value = double(from[p * channels + c]);
        sum[c] += value;
        square[c] += value * value;
      }
    if (!extremes) return;
    std::copy_n(from, channels, low);
    std::copy_n(from, channels, high);
    for (int64_t p = 1; p < count; ++p)
      for (int64_t c = 0; c < channels; ++c) {
        const float value = from[p * channels + c];
        low[c] = value < low[c] ? value : low[c];
        high[c] = value > high[c] ? value : high[c];
      }
  });
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, square = 0;
    for (int64_t k = 0; k < chunks; ++k) {
      sum += parts[k * channels * 3 + c];
      square += parts[k * channels * 3 + channels + c];
    }
    const double mean = sum / double(pixels);
    moments.mean[c] = float(mean);
    moments.variance[c] = float(std::max(0.0, square / double(pixels) - mean * mean));
  }
  if (!extremes) return;
  for (int64_t c = 0; c < channels; ++c) {
    const auto extreme = [&](int64_t k) { return reinterpret_cast<float*>(parts + (k * 3 + 2) * channels) + c; };
    float low = *extreme(0), high = extreme(0)[channels];
    for (int64_t k = 1; k < chunks; ++k) {
      low = std::min(low, *extreme(k));
      high = std::max(high, extreme(k)[channels]);
    }
    if (moments.min != nullptr) moments.min[c] = low;
    if (moments.max != nullptr) moments.max[c] = high;
  }
}

}  // namespace octet::cpu

namespace octet {

void measure_host_moments(int threads, const float* values, Shape shape, Moments moments) {
  cpu::Scratch scratch;
  cpu::measure_moments(threads, values, shape, moments, scratch);
}

}  // namespace octet
