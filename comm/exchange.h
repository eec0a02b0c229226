// Sums gradients over ranks while backward is still running. Buckets are parts of one flat f32 gradient buffer in
// backward order, so nothing is copied in or out. On the host a communication thread owns the transport. On a device a
// second stream does what the thread does.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "comm/transport.h"
#include "kernels/side_stream.h"

namespace octet {

enum class ExchangeKind : uint8_t { fp32, int8 };

struct ExchangeConfig {
  ExchangeKind kind = ExchangeKind::int8;
  bool overlap = true;  // false: nothing is sent before finish()
  size_t bucket_bytes = 4 << 20;
  int block = 1024;  // elements that share one scale
};

// The part of the flat gradient buffer that belongs to one parameter. Slices follow each other without gaps.
struct GradientSlice {
  size_t offset = 0, count = 0;  // in floats
  bool exact = false;            // norm parameters, biases and other small tensors: always fp32, in one message for all
};

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  virtual void begin(uint32_t step) = 0;
  // Whether it reads the memory of the host. False on a device, and with one rank, which exchanges nothing.
  virtual bool reads_gradients() const = 0;
  // Slices become ready in order. With overlap, the last slice of a bucket starts the exchange of the bucket.
  virtual void ready(size_t slice) = 0;
  // After it the caller sees the sums. On the host it waits for the communication thread, and rethrows the exception of
  // that thread. On a device it makes the backend wait, not the host.
  virtual void finish() = 0;
  // Called once in a step after finish(). On a device it waits until the sums are there; an Error means that a peer is
  // lost. finish() cannot do that, because a device may only repeat the record of an earlier one.
  virtual void wait() = 0;
  virtual int64_t wire_bytes() const = 0;
  // Since construction: seconds that the communication thread worked, and seconds that finish() waited for it, which
  // overlap did not hide. 0 on a device.
  virtual double busy_seconds() const = 0;
  virtual double wait_seconds() const = 0;
};

// gradient: the flat buffer; must outlive the exchange. seed: key of the stochastic rounding.
// After finish() every rank holds the sum over ranks, with the same bits. With one rank nothing is rounded. An
// exception of the communication thread ends the exchange: finish() and every later begin() throw it. exchange_tasks.h
// describes the arithmetic.
std::unique_ptr<GradientExchange> make_exchange(const ExchangeConfig&, std::unique_ptr<Transport>,
                                                std::span<float> gradient, std::vector<GradientSlice>, uint64_t seed);
// The same on a device: gradient lies in its memory, and the collectives work in the order of the stream. Codes have
// the same bits as on the host. Floats (fp32, exact slices) have them with two ranks, which can be added in one order
// only.
std::unique_ptr<GradientExchange> make_device_exchange(const ExchangeConfig&, std::unique_ptr<SideStream>,
                                                       std::unique_ptr<DeviceCollectives>, std::span<float> gradient,
                                                       std::vector<GradientSlice>, uint64_t seed);

}  // namespace octet
