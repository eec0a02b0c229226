// Communication between ranks through the memory of the host. There are two kinds: `self` (one rank, no library) and
// `mpi`. Calls block. Only one thread at a time may use a transport. duplicate() makes a transport for another thread.
#pragma once
#include <memory>
#include <string>

#include "comm/collectives.h"
#include "kernels/base/error.h"

namespace octet {

// Another rank or the network was lost. Exit code 84.
class LostPeer : public Error {
 public:
  using Error::Error;
};

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
  // Ends the whole job immediately with this exit code (MPI_Abort).
  [[noreturn]] virtual void abort(int code) noexcept = 0;
};

// `mpi` if mpirun or srun started the process, else `self`. If the launcher and the MPI library disagree about the
// number of ranks, the process ends with exit code 78. Otherwise N jobs of one rank would all write the same
// checkpoint.
std::unique_ptr<Transport> make_transport(int* argc, char*** argv);

std::unique_ptr<Transport> make_self_transport();
// Starts the MPI library, which a process may do only once. duplicate() makes further transports. The library ends with
// the last transport.
std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv);
// "Open MPI v4.1.4": the library that was loaded, which need not have been started.
std::string mpi_version();

}  // namespace octet
