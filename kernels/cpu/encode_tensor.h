// What happens to the values that a pass computes: they are measured, counted, encoded. A kernel is any
// void(Sink, Span, Target&), usually one row of a Passes table with its problem bound.
#pragma once
#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/passes.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reference/element.h"
#include "kernels/shared/encode.h"

namespace octet::cpu {

inline constexpr int64_t piece_elements = 16384;  // what a thread takes at once

// Max |value|; NaN counts as nothing.
template <class Kernel>
float absmax(const Threads& threads, int64_t count, const Kernel& kernel) {
  std::vector<float> maxima(static_cast<size_t>((count + piece_elements - 1) / piece_elements));
  parallel_pieces(threads, count, piece_elements, [&](int64_t first, int64_t length) {
    Target target;
    kernel(Sink::range, Span{first, length}, target);
    maxima[static_cast<size_t>(first / piece_elements)] = target.largest;
  });
  float largest = 0;
  for (float maximum : maxima) largest = std::max(largest, maximum);
  return largest;
}

using reference::clip_of;

// The random bits of a block of elements, 16 each.
class RandomBits {
 public:
  const uint16_t* draw(const Passes& passes, const RngKey& key, int64_t first, int64_t count) {
    const uint64_t global = key.first + static_cast<uint64_t>(first);
    constexpr int group = RandomGroup::elements;
    const int64_t skip = static_cast<int64_t>(global % group);
    passes.random_bits(key, global / group, (skip + count + group - 1) / group, bits_);
    return bits_ + skip;
  }

 private:
  alignas(64) uint16_t bits_[block_elements + 2 * RandomGroup::elements + 32];
};

// How the values of one tensor are encoded and measured.
struct TensorEncoder {
  const Passes& passes;
  const Encoding& encoding;
  const RngKey& key;
  float clip = 0;       // of codes
  void* out = nullptr;  // element 0 of the tensor; null: the histogram only
  int sample = 1;       // of the histogram; more than 1 where spans are whole blocks of the tensor

  // Encodes the kernel's values of one span in the calling thread. histogram: four tables, or null. Returns what was
  // measured: the number of saturated values and, if they are rounded to nearest, the largest magnitude.
  template <class Kernel>
  Target encode(Span span, uint32_t* histogram, const Kernel& kernel) const {
    RandomBits random;
    alignas(64) float values[block_elements];
    const Sink sink = !encoding.quantized()                       ? Sink::real
                      : encoding.rounding == Rounding::stochastic ? Sink::stochastic
                                                                  : Sink::nearest;
    Target target;
    target.lowest = static_cast<float>(encoding.lowest());
    target.qmax = static_cast<float>(encoding.qmax);
    target.inverse_scale = inverse_scale_of(clip, encoding.qmax);
    target.clip = clip;
    for (const int64_t end = span.first + span.count; span.first < end; span.first += block_elements) {
      span.count = std::min(block_elements, end - span.first);
      if (sink == Sink::stochastic && out != nullptr)
        target.random_bits = random.draw(passes, key, span.first, span.count);
      void* const to = out == nullptr ? nullptr : static_cast<char*>(out) + span.first * size_of(encoding.dtype);
      if (histogram == nullptr || !counted(span.first, sample)) {
        target.out = to;
        if (to != nullptr) kernel(sink, span, target);
        continue;
      }
      target.out = values;
      kernel(Sink::real, span, target);
      passes.histogram(values, span.count, histogram);
      target.out = to;
      if (to != nullptr) passes.encode[0][static_cast<int>(sink)](values, Span{0, span.count}, target);
    }
    return target;
  }
};

// Encodes a whole tensor with one clip, on all threads. Each counts into tables of its own; integers, so their order of
// addition does not matter.
template <class Kernel>
void encode_tensor(Threads threads, int64_t count, const TensorEncoder& encoder, Probe probe, const Kernel& kernel) {
  constexpr int64_t table = 4 * histogram_bins, bins_at_once = 256;
  const int64_t pieces = (count + piece_elements - 1) / piece_elements;
  if (pieces == 1) threads.count = 1;
  const bool counts = probe.histogram != nullptr;
  const int64_t busy = std::min<int64_t>(threads.running(), pieces);  // threads that get a piece, the first ones
  Scratch tables;
  uint32_t* const all = counts ? tables.get<uint32_t>(static_cast<size_t>(busy * table)) : nullptr;
  std::atomic<int64_t> saturated = 0;
  std::atomic<float> largest = 0;
  if (pieces > 0)
    run_team(threads, [&](const Team& team) {
      const FlushSubnormals flush;
      uint32_t* const own = counts && team.thread() < busy ? all + team.thread() * table : nullptr;
      if (own != nullptr) std::fill_n(own, table, 0u);
      team.share(pieces, [&](int64_t piece) {
        const int64_t first = piece * piece_elements;
        const Target measured = encoder.encode(Span{first, std::min(piece_elements, count - first)}, own, kernel);
        saturated += measured.saturated;
        for (float known = largest;
             measured.largest > known && !largest.compare_exchange_weak(known, measured.largest);) {
        }
      });
      if (!counts) return;
      team.share(histogram_bins / bins_at_once, [&](int64_t part) {
        for (int64_t row = 0; row < 4 * busy; ++row)
          for (int64_t bin = part * bins_at_once; bin < (part + 1) * bins_at_once; ++bin)
            probe.histogram[bin] += all[row * histogram_bins + bin];
      });
    });
  if (probe.saturated != nullptr) *probe.saturated += static_cast<uint64_t>(saturated.load());
  if (probe.largest != nullptr) *probe.largest = std::max(*probe.largest, largest.load());
}

}  // namespace octet::cpu
