// The collective operations that the gradient exchange needs. All ranks make the same calls in the same order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/base/error.h"

namespace octet {

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Every rank ends with the same bits. A Transport (transport.h) adds in rank order, so the bits do not depend on
  // where the ranks run.
  virtual void all_reduce_sum(std::span<float>) = 0;
  virtual void all_reduce_sum(std::span<int64_t>) = 0;
  virtual void all_reduce_max(std::span<float>) = 0;
  // Rank r receives block r of every rank. `send` and `receive` hold size() blocks of block_bytes each, in rank order.
  virtual void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) = 0;
  // receive = the blocks of all ranks in rank order; `send` is one block.
  virtual void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) = 0;

  // Payload bytes that this rank has sent to other ranks so far, computed, not measured:
  //   all_reduce              2 (size - 1) / size of the payload
  //   all_to_all, all_gather  size - 1 blocks
  //   reduce_sum              the payload; nothing on root
  //   broadcast               size - 1 payloads on root; nothing on the other ranks
  int64_t wire_bytes() const { return wire_bytes_; }

 protected:
  void count_wire(size_t bytes) { wire_bytes_ += static_cast<int64_t>(bytes); }
  void count_all_reduce(size_t bytes) { count_wire(2 * bytes * others() / (others() + 1)); }
  // count_all_to_all() and count_all_gather() also refuse buffers of a wrong size.
  void count_all_to_all(size_t send, size_t receive, size_t block) {
    REQUIRE(send == block * (others() + 1) && receive == send, "give one block for every rank", "all_to_all of ",
            size(), " blocks of ", block, " bytes sends ", send, " and receives ", receive, " bytes");
    count_wire(block * others());
  }
  void count_all_gather(size_t send, size_t receive) {
    REQUIRE(receive == send * (others() + 1), "give room for one block of every rank", "all_gather of ", size(),
            " blocks of ", send, " bytes receives ", receive, " bytes");
    count_wire(send * others());
  }

 private:
  size_t others() const { return static_cast<size_t>(size()) - 1; }
  int64_t wire_bytes_ = 0;
};

// Collectives on the memory of a device. A call returns when its work has been enqueued on the stream, before the work
// is done. The loss of a peer is therefore noticed later, in wait_until().
class DeviceCollectives : public Collectives {
 public:
  // Waits until done() returns true. If a call has failed or the deadline passes, throws an Error that names this rank
  // and the last call. After that, no work of these collectives runs on the device.
  virtual void wait_until(const std::function<bool()>& done) = 0;
};

}  // namespace octet
