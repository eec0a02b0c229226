// The transport over MPI's C interface. Only tune_open_mpi() depends on a particular library.
#include <mpi.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "comm/transports.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  REQUIRE(
      false,
      "look for the first rank that failed; if a peer or the network was lost, start again from the last checkpoint",
      call, " failed: ", std::string(text, static_cast<size_t>(length)));
}
#define CHECK_MPI(call) check(call, #call)

// Sets defaults that Open MPI reads from the environment. Variables that the user has set are kept.
void tune_open_mpi() {
#ifdef OPEN_MPI
  // A rank that waits for its peers polls. If it does not yield, the communication thread occupies a core that backward
  // needs. Small exchanges on busy cores then take ten times as long.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  // On one host only shared memory and loopback are useful. The start is 0.2 s faster without a search for network
  // hardware.
  const char *all = std::getenv("OMPI_COMM_WORLD_SIZE"), *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (all == nullptr || here == nullptr || std::strcmp(all, here) != 0) return;
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv("OMPI_MCA_btl", "self,vader,tcp", 0);
#endif
}

// Whether an exception is unwinding the stack. Peers may then be inside a collective that this rank will never join, so
// destructors must not call collectives. The launcher ends the peers when this process exits without MPI_Finalize.
bool unwinding() { return std::uncaught_exceptions() > 0; }

class Library {
 public:
  Library(int* argc, char*** argv) {
    int started = 0;
    CHECK_MPI(MPI_Initialized(&started));
    REQUIRE(!started, "call duplicate() on the existing transport", "MPI is already initialized in this process");
    tune_open_mpi();
    int provided = 0;
    CHECK_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
    REQUIRE(provided == MPI_THREAD_MULTIPLE, "use an MPI library built with thread support",
            "MPI_Init_thread provides level ", provided, " instead of MPI_THREAD_MULTIPLE");
  }
  ~Library() {
    if (!unwinding()) MPI_Finalize();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

constexpr size_t chunk = size_t{1} << 28;  // elements per call, since MPI counts are int

class MpiTransport final : public Transport {
 public:
  // Collective over the ranks of `of`.
  MpiTransport(std::shared_ptr<Library> library, MPI_Comm of) : library_(std::move(library)) {
    CHECK_MPI(MPI_Comm_dup(of, &comm_));
    CHECK_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    CHECK_MPI(MPI_Comm_rank(comm_, &rank_));
    CHECK_MPI(MPI_Comm_size(comm_, &size_));
    MPI_Comm host;
    CHECK_MPI(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host));
    CHECK_MPI(MPI_Comm_rank(host, &local_rank_));
    CHECK_MPI(MPI_Comm_size(host, &local_size_));
    CHECK_MPI(MPI_Comm_free(&host));
  }
  ~MpiTransport() override {
    if (!unwinding()) MPI_Comm_free(&comm_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  std::unique_ptr<Transport> duplicate() override { return std::make_unique<MpiTransport>(library_, comm_); }

  void all_reduce_sum(std::span<float> values) override { all_reduce(values, MPI_FLOAT, MPI_SUM); }
  void all_reduce_sum(std::span<double> values) override { all_reduce(values, MPI_DOUBLE, MPI_SUM); }
  void all_reduce_max(std::span<float> values) override { all_reduce(values, MPI_FLOAT, MPI_MAX); }

  void reduce_sum(std::span<int64_t> values, int root) override {
    for_chunks(values, [&](int64_t* part, int count) {
      if (rank_ == root)
        CHECK_MPI(MPI_Reduce(MPI_IN_PLACE, part, count, MPI_INT64_T, MPI_SUM, root, comm_));
      else
        CHECK_MPI(MPI_Reduce(part, nullptr, count, MPI_INT64_T, MPI_SUM, root, comm_));
    });
    if (rank_ != root) count_wire(values.size_bytes());
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    for_chunks(bytes, [&](std::byte* part, int count) { CHECK_MPI(MPI_Bcast(part, count, MPI_BYTE, root, comm_)); });
    if (rank_ == root) count_wire(bytes.size() * (size() - 1));
  }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) override {
    require_block(block_bytes);
    const size_t expected = block_bytes * static_cast<size_t>(size_);
    REQUIRE(send.size() == expected && receive.size() == expected, "give one block for every rank", "all_to_all of ",
            size_, " blocks of ", block_bytes, " bytes sends ", send.size(), " and receives ", receive.size(),
            " bytes");
    const int count = static_cast<int>(block_bytes);
    CHECK_MPI(MPI_Alltoall(send.data(), count, MPI_BYTE, receive.data(), count, MPI_BYTE, comm_));
    count_wire(block_bytes * (size() - 1));
  }

  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    require_block(send.size());
    REQUIRE(receive.size() == send.size() * static_cast<size_t>(size_), "give room for one block of every rank",
            "all_gather of ", size_, " blocks of ", send.size(), " bytes receives ", receive.size(), " bytes");
    const int count = static_cast<int>(send.size());
    CHECK_MPI(MPI_Allgather(send.data(), count, MPI_BYTE, receive.data(), count, MPI_BYTE, comm_));
    count_wire(send.size() * (size() - 1));
  }

  void barrier() override { CHECK_MPI(MPI_Barrier(comm_)); }

  [[noreturn]] void abort(int code) noexcept override {
    MPI_Abort(comm_, code);
    std::_Exit(code);
  }

 private:
  void count_wire(size_t bytes) { wire_bytes_ += static_cast<int64_t>(bytes); }

  static void require_block(size_t bytes) {
    REQUIRE(bytes <= INT_MAX, "split the message, for example by a smaller bucket", "a block of ", bytes,
            " bytes is more than MPI can count (", INT_MAX, ")");
  }

  template <class T, class Call>
  static void for_chunks(std::span<T> values, Call call) {
    for (size_t at = 0; at < values.size(); at += chunk)
      call(values.data() + at, static_cast<int>(std::min(chunk, values.size() - at)));
  }

  // The result has the same bits on every rank: floating-point addition is commutative. The algorithms of both
  // libraries add the ranks' parts in the same tree on all ranks, or compute each element on one rank only.
  template <class T>
  void all_reduce(std::span<T> values, MPI_Datatype type, MPI_Op op) {
    for_chunks(values,
               [&](T* part, int count) { CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, part, count, type, op, comm_)); });
    count_wire(2 * values.size_bytes() * (size() - 1) / size());
  }

  std::shared_ptr<Library> library_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv) {
  return std::make_unique<MpiTransport>(std::make_shared<Library>(argc, argv), MPI_COMM_WORLD);
}

}  // namespace octet
