// How ranks talk over the host's memory: thin, one file each for `self` (one rank, no library) and `mpi`. Calls are
// collective, blocking, and made in the same order on every rank. A transport is used by one thread at a time;
// duplicate() gives another thread its own. The algorithms are written once above it: quantized_all_reduce.h,
// exchange.h, agreement.h.
#pragma once
#include <memory>
#include <string>

#include "comm/collectives.h"

namespace octet {

class Transport : public Collectives {
 public:
  virtual std::string name() const = 0;  // "mpi", "self"
  virtual int local_rank() const = 0;    // among the ranks of this host
  virtual int local_size() const = 0;
  virtual std::unique_ptr<Transport> duplicate() = 0;

  using Collectives::all_reduce_sum;
  virtual void all_reduce_sum(std::span<double>) = 0;
  virtual void reduce_sum(std::span<int64_t>, int root) = 0;  // the result stands on root alone
  virtual void broadcast(std::span<std::byte>, int root) = 0;
  virtual void barrier() = 0;
  // Ends the whole job at once with this exit code (MPI_Abort); never returns.
  [[noreturn]] virtual void abort(int code) noexcept = 0;
};

// Chooses by what started the process: `mpi` under mpirun or srun, else `self`. Refuses (exit code 78) a launcher whose
// size differs from the library's: N worlds of one rank would all write the same checkpoint.
std::unique_ptr<Transport> make_transport(int* argc, char*** argv);

}  // namespace octet
