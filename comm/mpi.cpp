// Ranks by the C interface of MPI. Only tune_open_mpi() and require_first_start() depend on the library.
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <vector>

#include "comm/launcher.h"
#include "comm/networks.h"
#include "comm/transport.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw LostPeer(__FILE__, __LINE__, say(call, " failed: ", std::string(text, static_cast<size_t>(length))),
                 "look for the first rank that failed, and resume from the last checkpoint");
}
#define CHECK_MPI(call) check(call, #call)

#ifdef OPEN_MPI
// Keeps ranks from connecting to bridges of their own host. What the user or the cluster has set stays.
void leave_out_networks() {
  const std::string parameter = "btl_tcp_if_";
  for (const char* const which : {"include", "exclude"})
    if (std::getenv(say("OMPI_MCA_", parameter, which).c_str()) != nullptr) return;
  std::vector<std::string> files = {"/etc/openmpi/openmpi-mca-params.conf"};
  if (const char* home = std::getenv("HOME")) files.push_back(say(home, "/.openmpi/mca-params.conf"));
  if (const char* prefix = std::getenv("OPAL_PREFIX")) files.push_back(say(prefix, "/etc/openmpi-mca-params.conf"));
  for (const std::string& file : files) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    if (sets_parameter(text.str(), parameter)) return;
  }
  std::string excluded = "127.0.0.1/8,sppp";  // Open MPI's default
  const std::vector<std::string> names = left_out(networks());
  for (const std::string& name : names) excluded += say(",", name);
  if (!names.empty()) setenv(say("OMPI_MCA_", parameter, "exclude").c_str(), excluded.c_str(), 1);
}
#endif

// Defaults that Open MPI reads from the environment. Variables that the user has set are kept.
void tune_open_mpi() {
#ifdef OPEN_MPI
  // A rank that waits for its peers polls. If it did not yield, it would take the core on which backward computes what
  // the peers wait for, and small exchanges on busy cores would take ten times as long.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  // One host needs only shared memory and loopback. Without the search for network hardware the start takes 0.2 s less.
  const char *all = std::getenv("OMPI_COMM_WORLD_SIZE"), *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (all == nullptr || here == nullptr || std::strcmp(all, here) != 0) return leave_out_networks();
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv("OMPI_MCA_btl", "self,vader,tcp", 0);
#endif
}

// Whether an exception is leaving this rank. Peers may then be inside a collective that this rank will never join, so
// it must not call another one. The launcher ends the peers when this process exits without MPI_Finalize.
bool unwinding() { return std::uncaught_exceptions() > 0; }

// The library may bind the calling thread to other cores than the launcher has allowed, and later threads would inherit
// that.
class KeepsCores {
 public:
  KeepsCores() : known_(sched_getaffinity(0, bytes, cores_) == 0) {}
  ~KeepsCores() {
    if (known_) sched_setaffinity(0, bytes, cores_);
  }
  KeepsCores(const KeepsCores&) = delete;
  KeepsCores& operator=(const KeepsCores&) = delete;

 private:
  static constexpr size_t bytes = 1024;  // a bit for each core that Linux can have
  cpu_set_t cores_[bytes / sizeof(cpu_set_t)] = {};
  const bool known_;
};

// Open MPI 4 starts once in each rank. In a second process of a rank MPI_Init ends the process, without a word of why.
void require_first_start() {
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
  const Launched from = launched();
  if (from.host_directory.empty()) return;
  const std::string mark = say(from.host_directory, "/octet-rank-", from.rank);  // of this job, and removed with it
  const int file = open(mark.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  REQUIRE_USAGE(file >= 0 || errno != EEXIST, "start each command with an mpirun or srun of its own", "rank ",
                from.rank, " has run an octet command before, and Open MPI starts only once in each rank");
  if (file >= 0) close(file);
#endif
}

class Library {
 public:
  Library(int* argc, char*** argv) {
    int started = 0;
    CHECK_MPI(MPI_Initialized(&started));
    REQUIRE(!started, "call duplicate() on the existing transport", "MPI is already initialized in this process");
    require_first_start();
    tune_open_mpi();
    const KeepsCores keeps;
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

constexpr size_t chunk = size_t{1} << 28;  // elements per call, because MPI counts in int

class MpiTransport final : public Transport {
 public:
  // Collective over `of`.
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

  void all_reduce_sum(std::span<float> values) override { sum_in_rank_order(values, MPI_FLOAT); }
  void all_reduce_sum(std::span<double> values) override { sum_in_rank_order(values, MPI_DOUBLE); }
  void all_reduce_sum(std::span<int64_t> values) override {
    for_chunks(values, [&](int64_t* part, int count) {
      CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, part, count, MPI_INT64_T, MPI_SUM, comm_));
    });
    count_all_reduce(values.size_bytes());
  }
  void all_reduce_max(std::span<float> values) override {
    for_chunks(values, [&](float* part, int count) {
      CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, part, count, MPI_FLOAT, MPI_MAX, comm_));
    });
    count_all_reduce(values.size_bytes());
  }

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
    count_all_to_all(send.size(), receive.size(), block_bytes);
    const int count = static_cast<int>(block_bytes);
    CHECK_MPI(MPI_Alltoall(send.data(), count, MPI_BYTE, receive.data(), count, MPI_BYTE, comm_));
  }

  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    require_block(send.size());
    count_all_gather(send.size(), receive.size());
    const int count = static_cast<int>(send.size());
    CHECK_MPI(MPI_Allgather(send.data(), count, MPI_BYTE, receive.data(), count, MPI_BYTE, comm_));
  }

  void barrier() override { CHECK_MPI(MPI_Barrier(comm_)); }

  [[noreturn]] void abort(int code) noexcept override {
    MPI_Abort(comm_, code);
    std::_Exit(code);
  }

 private:
  static void require_block(size_t bytes) {
    REQUIRE_USAGE(bytes <= INT_MAX, "set a smaller comm.bucket_mb", "a block of ", bytes,
                  " bytes is more than MPI can count (", INT_MAX, ")");
  }

  template <class T, class Call>
  static void for_chunks(std::span<T> values, Call call) {
    for (size_t at = 0; at < values.size(); at += chunk)
      call(values.data() + at, static_cast<int>(std::min(chunk, values.size() - at)));
  }

  // MPI_Allreduce promises neither the same bits on every rank nor for another placement of ranks on hosts. Here each
  // rank sums a share of the elements, in the order of the ranks, and sends the sums to all.
  template <class T>
  void sum_in_rank_order(std::span<T> values, MPI_Datatype type) {
    for_chunks(values, [&](T* part, int count) {
      const auto begin_of = [&](int64_t rank) { return static_cast<int>(count * rank / size_); };
      const int begin = begin_of(rank_), own = begin_of(rank_ + 1) - begin;
      std::vector<int> counts, begins, own_begins;  // the share of each rank; where this rank's share comes in
      for (int rank = 0; rank < size_; ++rank) {
        begins.push_back(begin_of(rank));
        counts.push_back(begin_of(rank + 1) - begins.back());
        own_begins.push_back(own * rank);
      }
      const std::vector<int> own_counts(counts.size(), own);
      received_.resize(static_cast<size_t>(own) * counts.size() * sizeof(T));
      CHECK_MPI(MPI_Alltoallv(part, counts.data(), begins.data(), type, received_.data(), own_counts.data(),
                              own_begins.data(), type, comm_));
      const T* const received = reinterpret_cast<const T*>(received_.data());
      std::copy_n(received, own, part + begin);
      for (int rank = 1; rank < size_; ++rank)
        for (int i = 0; i < own; ++i) part[begin + i] += received[own_begins[static_cast<size_t>(rank)] + i];
      CHECK_MPI(MPI_Allgatherv(MPI_IN_PLACE, 0, type, part, counts.data(), begins.data(), type, comm_));
    });
    count_all_reduce(values.size_bytes());
  }

  std::shared_ptr<Library> library_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<std::byte> received_;  // by sum_in_rank_order()
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv) {
  return std::make_unique<MpiTransport>(std::make_shared<Library>(argc, argv), MPI_COMM_WORLD);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<size_t>(length));  // "Open MPI v4.1.4, package: ..."
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace octet
