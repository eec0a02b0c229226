// The collective operations of the gradient exchange. Every rank makes the same calls in the same order. A Transport
// (transport.h) works on host memory and blocks. DeviceCollectives (device_collectives.h) work on device memory, in the
// order of a stream.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace octet {

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The result has the same bits on every rank.
  virtual void all_reduce_sum(std::span<float>) = 0;
  virtual void all_reduce_max(std::span<float>) = 0;
  // Rank r receives block r of every rank. `send` and `receive` hold size() blocks of block_bytes each, in rank order.
  virtual void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) = 0;
  // receive: the blocks of all ranks, in rank order. send: this rank's block.
  virtual void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) = 0;

  // Payload bytes that this rank has sent to other ranks so far, by formula. all_reduce: 2 (size-1)/size of the
  // payload. all_to_all and all_gather: size-1 blocks. reduce_sum: the payload, except on root. broadcast: size-1
  // payloads, on root.
  int64_t wire_bytes() const { return wire_bytes_; }

 protected:
  int64_t wire_bytes_ = 0;
};

}  // namespace octet
