// What the gradient exchange asks of the ranks. Calls are collective and made in the same order on every rank. A
// Transport (transport.h) is the host's: it blocks. Those of a device (device_collectives.h) take the device's memory
// and run in the order of its stream.
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
  // Rank r gets block r of every rank: `send` and `receive` hold size() blocks of block_bytes each, in rank order.
  virtual void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) = 0;
  // receive = the blocks of all ranks in rank order; `send` is one block.
  virtual void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) = 0;

  // Payload bytes this rank has put on the wire so far (what it sends to other ranks, counted by the algorithm's
  // formula: all_reduce 2 (size-1)/size of the payload, all_to_all and all_gather (size-1) blocks; reduce_sum its
  // payload, except on root; broadcast (size-1) payloads on root).
  int64_t wire_bytes() const { return wire_bytes_; }

 protected:
  int64_t wire_bytes_ = 0;
};

}  // namespace octet
