// Sums gradients over ranks while backward is still running. Buckets are slices of one flat f32 gradient buffer that is
// laid out in backward order, so there are no copies in or out. On the host one communication thread owns the
// transport; on a device a stream of its own does what the thread does.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "comm/device_collectives.h"
#include "comm/transport.h"
#include "kernels/side_stream.h"

namespace octet {

enum class ExchangeKind : uint8_t { fp32, int8 };

struct ExchangeConfig {
  ExchangeKind kind = ExchangeKind::int8;
  bool overlap = true;  // false: nothing travels before finish()
  size_t bucket_bytes = 4 << 20;
  int block = 1024;  // elements that share one scale
};

// A run of the flat gradient buffer that belongs to one parameter, in backward order without gaps.
struct GradientSlice {
  size_t offset = 0, count = 0;  // in floats
  bool exact = false;  // norm parameters, biases and other small tensors: always fp32, in one coalesced message
};

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  virtual void begin(uint32_t step) = 0;
  // Whether it works on the host's memory: false with one rank, which exchanges nothing, and on a device.
  virtual bool reads_gradients() const = 0;
  // Slices become ready in order; the last of a bucket starts its all-reduce, if overlap.
  virtual void ready(size_t slice) = 0;
  // What the caller does next with the gradients sees the sums. The host's exchange waits for them here, and rethrows
  // what its thread threw; that of a device makes the backend wait, not the host.
  virtual void finish() = 0;
  // Once in a step, after finish(), which a device may have recorded and repeats: returns when the host may wait for
  // the device without end, because the sums are there. An Error when they will never be: a peer is lost.
  virtual void wait() = 0;
  virtual int64_t wire_bytes() const = 0;
  // Of the communication thread, since construction, and that finish() waited for it: what was not hidden. A device is
  // not timed: 0.
  virtual double busy_seconds() const = 0;
  virtual double wait_seconds() const = 0;
};

// gradient: the flat buffer; must outlive the exchange. seed keys the stochastic rounding.
// After finish() every rank holds the sum over ranks, with the same bits. One rank: nothing is touched, so nothing is
// rounded. An exception of the communication thread ends the exchange: finish() and every later begin() throw it. int8
// is two-shot per bucket: block absmax -> max over ranks -> shared scale -> stochastic int8 -> all-to-all of shards ->
// exact int32 sum -> stochastic requantization (shared scale times size) -> all-gather. 2 bytes per element on the
// wire.
std::unique_ptr<GradientExchange> make_exchange(const ExchangeConfig&, std::unique_ptr<Transport>,
                                                std::span<float> gradient, std::vector<GradientSlice>, uint64_t seed);
// The same on a device: gradient lies in its memory, and the collectives work in the order of the stream. Codes give
// the host's bits; floats (fp32, exact slices) do with two ranks, where there is only one order of summation.
std::unique_ptr<GradientExchange> make_device_exchange(const ExchangeConfig&, std::unique_ptr<SideStream>,
                                                       std::unique_ptr<DeviceCollectives>, std::span<float> gradient,
                                                       std::vector<GradientSlice>, uint64_t seed);

}  // namespace octet
