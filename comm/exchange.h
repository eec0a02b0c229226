// Sums gradients over ranks while backward is still running. Buckets are slices of one flat f32 gradient buffer in
// backward order, so nothing is copied. On the host one communication thread owns the transport. On a device a separate
// stream takes the thread's place.
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
  bool overlap = true;  // false: finish() starts the exchange
  size_t bucket_bytes = 4 << 20;
  int block = 1024;  // elements per scale
};

// The part of the flat gradient buffer that belongs to one parameter. Slices are in backward order, without gaps.
struct GradientSlice {
  size_t offset = 0, count = 0;  // in floats
  bool exact = false;  // norm parameters, biases and other small tensors: always fp32, in one coalesced message
};

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  virtual void begin(uint32_t step) = 0;
  // Whether the exchange reads gradients in host memory. False on a device, and with one rank, which exchanges nothing.
  virtual bool reads_gradients() const = 0;
  // Called for each slice, in order. With overlap the last slice of a bucket starts its all-reduce.
  virtual void ready(size_t slice) = 0;
  // After this call, later work on the gradients sees the sums. On the host it waits for them, and rethrows an
  // exception of the thread. On a device it lets the backend's stream wait, not the host.
  virtual void finish() = 0;
  // Called by the host once per step, after finish(). Waits until the device has the sums. It is apart from finish(),
  // because a device may record finish() and replay it. Error: a peer is lost, so the sums will not arrive.
  virtual void wait() = 0;
  virtual int64_t wire_bytes() const = 0;
  // Times since construction, in seconds: while the communication thread worked, and while finish() waited for it. 0 on
  // a device.
  virtual double busy_seconds() const = 0;
  virtual double wait_seconds() const = 0;
};

// gradient: the flat buffer; must outlive the exchange. seed: for stochastic rounding. After finish() every rank holds
// the sum over ranks, with the same bits. With one rank the gradients are unchanged, so nothing is rounded. An
// exception of the communication thread ends the exchange: finish() and every later begin() throw it.
// quantized_all_reduce.h describes int8.
std::unique_ptr<GradientExchange> make_exchange(const ExchangeConfig&, std::unique_ptr<Transport>,
                                                std::span<float> gradient, std::vector<GradientSlice>, uint64_t seed);
// The same on a device. gradient: in device memory. The collectives work in the order of the stream. Sums of codes have
// the same bits as on the host. Sums of floats (fp32, exact slices) do so with two ranks, which have only one order of
// summation.
std::unique_ptr<GradientExchange> make_device_exchange(const ExchangeConfig&, std::unique_ptr<SideStream>,
                                                       std::unique_ptr<DeviceCollectives>, std::span<float> gradient,
                                                       std::vector<GradientSlice>, uint64_t seed);

}  // namespace octet
