// How ranks talk: thin, one file each for `self` (one rank, no library) and `mpi`. Calls are collective, blocking, and
// made in the same order on every rank. A transport is used by one thread at a time; duplicate() gives another thread
// its own. The algorithms are written once above it: quantized_all_reduce.h, exchange.h, agreement.h.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace octet {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string name() const = 0;  // "mpi", "self"
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // among the ranks of this host
  virtual int local_size() const = 0;
  virtual std::unique_ptr<Transport> duplicate() = 0;

  virtual void all_reduce_sum(std::span<float>) = 0;
  virtual void all_reduce_sum(std::span<double>) = 0;
  virtual void all_reduce_sum(std::span<int64_t>) = 0;
  virtual void all_reduce_max(std::span<float>) = 0;
  virtual void reduce_sum(std::span<int64_t>, int root) = 0;  // the result stands on root alone
  virtual void broadcast(std::span<std::byte>, int root) = 0;
  // Rank r gets block r of every rank: `send` and `receive` hold size() blocks of block_bytes each, in rank order.
  virtual void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) = 0;
  // receive = the blocks of all ranks in rank order; `send` is one block.
  virtual void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) = 0;
  virtual void barrier() = 0;
  // Ends the whole job at once with this exit code (MPI_Abort); never returns.
  [[noreturn]] virtual void abort(int code) noexcept = 0;

  // Payload bytes this rank has put on the wire so far (what it sends to other ranks, counted by the algorithm's
  // formula: all_reduce 2 (size-1)/size of the payload, all_to_all and all_gather (size-1) blocks; reduce_sum its
  // payload, except on root; broadcast (size-1) payloads on root).
  int64_t wire_bytes() const { return wire_bytes_; }

 protected:
  int64_t wire_bytes_ = 0;
};

// Chooses by what started the process: `mpi` under mpirun or srun, else `self`. Refuses (exit code 78) a launcher whose
// size differs from the library's: N worlds of one rank would all write the same checkpoint.
std::unique_ptr<Transport> make_transport(int* argc, char*** argv);

}  // namespace octet
