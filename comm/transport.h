// Communication between ranks through host memory. Each transport is one file: `self` (one rank, no library) and `mpi`.
// Calls are collective and block. Every rank makes the same calls in the same order. Only one thread at a time uses a
// transport; duplicate() gives another thread its own. The algorithms are above this interface: quantized_all_reduce.h,
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
  virtual void reduce_sum(std::span<int64_t>, int root) = 0;  // only root gets the result
  virtual void broadcast(std::span<std::byte>, int root) = 0;
  virtual void barrier() = 0;
  // Ends the whole job at once with this exit code (MPI_Abort). Never returns.
  [[noreturn]] virtual void abort(int code) noexcept = 0;
};

// Returns `mpi` if mpirun or srun started the process, else `self`. Exits with code 78 if the launcher and the MPI
// library report different numbers of ranks: N jobs of one rank would all write the same checkpoint.
std::unique_ptr<Transport> make_transport(int* argc, char*** argv);

}  // namespace octet
