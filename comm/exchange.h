// Sums gradients over ranks while backward is still running. The gradients lie in one flat f32 buffer, in the order in
// which backward computes them. A bucket is a part of this buffer that is exchanged at once, so gradients need not be
// gathered first. On the host a communication thread owns the transport. On a device a second stream does what the
// thread does.
#pragma once
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "comm/transport.h"
#include "kernels/side_stream.h"

namespace octet {

enum class ExchangeKind : uint8_t { fp32, int8, exact };

// The flat buffer: f32 values, or for the exact exchange integers, whose sum does not depend on the order of addition.
using GradientBuffer = std::variant<std::span<float>, std::span<int64_t>>;

struct ExchangeConfig {
  ExchangeKind kind = ExchangeKind::int8;
  bool overlap = true;  // false: nothing is sent before finish()
  size_t bucket_bytes = 4 << 20;
  int block = 1024;  // elements that share one scale
};

// The part of the flat gradient buffer that belongs to one parameter. Slices follow each other without gaps.
struct GradientSlice {
  size_t offset = 0, count = 0;  // in elements
  bool exact = false;  // always exchanged as fp32, in one message for all such slices: norm parameters, biases
};

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  virtual void begin(uint32_t step) = 0;
  // Whether the exchange works on gradients in host memory. If so, a caller with a device copies each gradient there
  // before ready(), and the sums back after finish(). False on a device, and with one rank, which exchanges nothing.
  virtual bool reads_gradients() const = 0;
  // Announces that a slice holds its final values. Slices become ready in order. With overlap, the last slice of a
  // bucket starts the exchange of the bucket.
  virtual void ready(size_t slice) = 0;
  // Ends the exchange of a step. On the host, waits for the communication thread and rethrows the exception of that
  // thread; the buffer holds the sums when finish() returns. On a device, makes the backend wait, not the host: later
  // work of the backend sees the sums.
  virtual void finish() = 0;
  // Called once in a step after finish(). On a device, waits until the sums are there; an Error means that a peer is
  // lost. finish() cannot do that: a device may record the calls of a step and repeat the record in later steps, and
  // then finish() itself is not called.
  virtual void wait() = 0;
  virtual int64_t wire_bytes() const = 0;
  // Since construction: seconds that the communication thread worked, and seconds that finish() waited for the thread,
  // which is the time that backward did not hide. 0 on a device.
  virtual double busy_seconds() const = 0;
  virtual double wait_seconds() const = 0;
};

// gradient: the flat buffer; must outlive the exchange. seed: key of the stochastic rounding.
// After finish() every rank holds the sum over ranks, with the same bits. With one rank nothing is rounded. An
// exception of the communication thread ends the exchange: finish() and every later begin() throw that exception.
// exchange_tasks.h describes the arithmetic.
std::unique_ptr<GradientExchange> make_exchange(const ExchangeConfig&, std::unique_ptr<Transport>,
                                                GradientBuffer gradient, std::vector<GradientSlice>, uint64_t seed);
// The same on a device: `gradient` lies in the device's memory, and the collectives work in the order of the stream.
// Sums of codes have the same bits as on the host. fp32 sums (ExchangeKind::fp32, exact slices) have the same bits as
// on the host only with two ranks; with more, the library adds in an order of its own.
std::unique_ptr<GradientExchange> make_device_exchange(const ExchangeConfig&, std::unique_ptr<SideStream>,
                                                       std::unique_ptr<DeviceCollectives>, GradientBuffer gradient,
                                                       std::vector<GradientSlice>, uint64_t seed);

}  // namespace octet
