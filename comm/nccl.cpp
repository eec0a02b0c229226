// Collectives by NCCL. The communicator does not block. A call that must wait for peers returns "in progress" and its
// state is polled until the deadline, so a lost peer causes an Error and not a hang.
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "comm/nccl_library.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto pause = std::chrono::microseconds(20);  // between two polls

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(const NcclLibrary& library, Transport& transport, void* stream, double timeout,
                  std::function<void()> before_end)
      : library_(library),
        stream_(static_cast<cudaStream_t>(stream)),
        timeout_(timeout),
        before_end_(std::move(before_end)),
        rank_(transport.rank()),
        size_(transport.size()) {
    require_nccl_version(library);
    ncclUniqueId id{};
    call_ = "ncclGetUniqueId";
    if (rank_ == 0) settle(library_.get_unique_id(&id));
    transport.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    call_ = "ncclCommInitRankConfig";
    settle(library_.init(&communicator_, size_, id, rank_, &config));
    started_ = true;
  }
  // If an exception is unwinding the stack, peers may be lost, so no collective may be called.
  ~NcclCollectives() override {
    if (communicator_ == nullptr) return;
    before_end_();
    ncclResult_t result = std::uncaught_exceptions() > 0 ? ncclInternalError : library_.finalize(communicator_);
    for (const Clock::time_point start = Clock::now(); result == ncclInProgress && !late(start); result = state())
      std::this_thread::sleep_for(pause);
    if (result == ncclSuccess)
      library_.destroy(communicator_);
    else
      library_.abort(communicator_);
  }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // Each element is summed once, in an order that depends on its position. All ranks receive that result.
  void all_reduce_sum(std::span<float> values) override { all_reduce(values, ncclSum); }
  void all_reduce_max(std::span<float> values) override { all_reduce(values, ncclMax); }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) override {
    const size_t expected = block_bytes * static_cast<size_t>(size_);
    REQUIRE(send.size() == expected && receive.size() == expected, "give one block for every rank", "all_to_all of ",
            size_, " blocks of ", block_bytes, " bytes sends ", send.size(), " and receives ", receive.size(),
            " bytes");
    begin("ncclSend and ncclRecv");
    settle(library_.group_start());
    // The group must be closed before the communicator can be aborted, so the results of its calls are checked
    // afterwards.
    ncclResult_t accepted = ncclSuccess;
    const auto judge_later = [&](ncclResult_t result) {
      if (accepted == ncclSuccess && result != ncclInProgress) accepted = result;
    };
    for (int rank = 0; rank < size_; ++rank) {
      const size_t at = block_bytes * static_cast<size_t>(rank);
      judge_later(library_.send(send.data() + at, block_bytes, ncclInt8, rank, communicator_, stream_));
      judge_later(library_.receive(receive.data() + at, block_bytes, ncclInt8, rank, communicator_, stream_));
    }
    const ncclResult_t ended = library_.group_end();
    require_accepted(accepted);
    settle(ended);
    count_wire(block_bytes * static_cast<size_t>(size_ - 1));
  }

  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    REQUIRE(receive.size() == send.size() * static_cast<size_t>(size_), "give room for one block of every rank",
            "all_gather of ", size_, " blocks of ", send.size(), " bytes receives ", receive.size(), " bytes");
    begin("ncclAllGather");
    settle(library_.all_gather(send.data(), receive.data(), send.size(), ncclInt8, communicator_, stream_));
    count_wire(send.size() * static_cast<size_t>(size_ - 1));
  }

  void wait_until(const std::function<bool()>& done) override {
    require_alive();
    for (const Clock::time_point start = Clock::now();; std::this_thread::sleep_for(pause)) {
      const bool over = done();
      require_accepted(state());  // also after the last call, since a failed call leaves no valid sums
      if (over) return;
      if (late(start)) give_up();
    }
  }

 private:
  void all_reduce(std::span<float> values, ncclRedOp_t operation) {
    begin("ncclAllReduce");
    settle(library_.all_reduce(values.data(), values.data(), values.size(), ncclFloat32, operation, communicator_,
                               stream_));
    count_wire(2 * values.size_bytes() * static_cast<size_t>(size_ - 1) / static_cast<size_t>(size_));
  }
  void count_wire(size_t bytes) { wire_bytes_ += static_cast<int64_t>(bytes); }

  bool late(Clock::time_point start) const {
    return timeout_ > 0 && std::chrono::duration<double>(Clock::now() - start).count() > timeout_;
  }
  ncclResult_t state() const {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = library_.get_async_error(communicator_, &state);
    return asked == ncclSuccess ? state : asked;
  }

  void begin(const char* call) {
    require_alive();
    call_ = call;
  }
  void require_alive() const {
    REQUIRE(communicator_ != nullptr, "start again from the last checkpoint", "rank ", rank_,
            ": NCCL was aborted after ", call_, " failed");
  }
  // Waits until the work of a call is enqueued in the stream. Work that is enqueued later would otherwise overtake it.
  void settle(ncclResult_t result) {
    for (const Clock::time_point start = Clock::now(); result == ncclInProgress; result = state()) {
      if (late(start)) give_up();
      std::this_thread::sleep_for(pause);
    }
    require_accepted(result);
  }
  void require_accepted(ncclResult_t result) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* const more = library_.last_error(communicator_);
    const std::string why =
        say(library_.error_string(result), more != nullptr && *more != 0 ? say(" (", more, ")") : std::string());
    abort();
    REQUIRE_USAGE(started_ || result != ncclInvalidUsage,
                  "start no more ranks on a machine than it has GPUs, or set "
                  "comm.transport: mpi",
                  "rank ", rank_, ": NCCL rejects these ranks, for example because two share one GPU: ", why);
    REQUIRE(
        false,
        "look for the first rank that failed; if a peer or the network was lost, start again from the last checkpoint",
        "rank ", rank_, ": ", call_, " failed: ", why);
  }
  [[noreturn]] void give_up() {
    abort();
    throw Error(__FILE__, __LINE__, say("rank ", rank_, ": ", call_, " has not ended after ", timeout_, " s"),
                "look for the rank that hangs or is lost; comm.timeout_seconds is the limit");
  }
  void abort() {
    if (communicator_ == nullptr) return;
    before_end_();
    library_.abort(communicator_);
    communicator_ = nullptr;
  }

  const NcclLibrary library_;
  const cudaStream_t stream_;
  const double timeout_;
  const std::function<void()> before_end_;
  const int rank_, size_;
  ncclComm_t communicator_ = nullptr;  // null: aborted
  bool started_ = false;
  const char* call_ = "";  // the last call
};

}  // namespace

std::unique_ptr<DeviceCollectives> make_nccl_collectives(const NcclLibrary& library, Transport& transport, void* stream,
                                                         double timeout, std::function<void()> before_end) {
  return std::make_unique<NcclCollectives>(library, transport, stream, timeout, std::move(before_end));
}

}  // namespace octet
