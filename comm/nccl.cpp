// Collectives by NCCL. The communicator does not block: a call that has to wait for peers returns "in progress", and
// its state is asked for until the deadline. A lost peer is therefore an Error, not a hang.
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "comm/nccl_library.h"
#include "comm/transport.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto pause = std::chrono::microseconds(20);  // between two questions for the state

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(const NcclLibrary& library, Transport& transport, void* stream, double timeout,
                  std::function<void()>&& before_end)
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
  // While an exception leaves this rank its peers may be gone, so nothing collective may be called.
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

  // NCCL chooses the order of a sum by the topology of the GPUs; with two ranks there is only one order.
  void all_reduce_sum(std::span<float> values) override { all_reduce(values, ncclFloat32, ncclSum); }
  void all_reduce_sum(std::span<int64_t> values) override { all_reduce(values, ncclInt64, ncclSum); }
  void all_reduce_max(std::span<float> values) override { all_reduce(values, ncclFloat32, ncclMax); }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) override {
    count_all_to_all(send.size(), receive.size(), block_bytes);
    begin("ncclSend and ncclRecv");
    settle(library_.group_start());
    // An open group has to end before abort(), so the results of its calls are checked after it.
    ncclResult_t accepted = ncclSuccess;
    const auto check_later = [&](ncclResult_t result) {
      if (accepted == ncclSuccess && result != ncclInProgress) accepted = result;
    };
    for (int rank = 0; rank < size_; ++rank) {
      const size_t at = block_bytes * static_cast<size_t>(rank);
      check_later(library_.send(send.data() + at, block_bytes, ncclInt8, rank, communicator_, stream_));
      check_later(library_.receive(receive.data() + at, block_bytes, ncclInt8, rank, communicator_, stream_));
    }
    const ncclResult_t ended = library_.group_end();
    require_accepted(accepted);
    settle(ended);
  }

  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    count_all_gather(send.size(), receive.size());
    begin("ncclAllGather");
    settle(library_.all_gather(send.data(), receive.data(), send.size(), ncclInt8, communicator_, stream_));
  }

  void wait_until(const std::function<bool()>& done) override {
    require_alive();
    for (const Clock::time_point start = Clock::now();; std::this_thread::sleep_for(pause)) {
      const bool over = done();
      require_accepted(state());  // also at the end: a call that failed leaves no sums
      if (over) return;
      if (late(start)) give_up();
    }
  }

 private:
  template <class Number>
  void all_reduce(std::span<Number> values, ncclDataType_t type, ncclRedOp_t operation) {
    begin("ncclAllReduce");
    settle(library_.all_reduce(values.data(), values.data(), values.size(), type, operation, communicator_, stream_));
    count_all_reduce(values.size_bytes());
  }
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
    REQUIRE(communicator_ != nullptr, "resume from the last checkpoint", "rank ", rank_, ": NCCL ended after ", call_,
            " failed");
  }
  // Waits until the work of a call has been enqueued. What comes next in the stream would otherwise overtake it.
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
                  "give every rank a GPU of its own: no more ranks on a machine than it has GPUs, or set "
                  "comm.transport: mpi",
                  "rank ", rank_, ": NCCL refuses these ranks, as it does when two share one GPU: ", why);
    throw LostPeer(__FILE__, __LINE__, say("rank ", rank_, ": ", call_, " failed: ", why),
                   "look for the first rank that failed, and resume from the last checkpoint");
  }
  [[noreturn]] void give_up() {
    abort();
    throw LostPeer(__FILE__, __LINE__, say("rank ", rank_, ": ", call_, " has not ended after ", timeout_, " s"),
                   "look for a rank that hangs or has ended; comm.timeout_seconds is the limit");
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
  ncclComm_t communicator_ = nullptr;  // null after abort()
  bool started_ = false;
  const char* call_ = "";  // the last one
};

}  // namespace

std::unique_ptr<DeviceCollectives> make_nccl_collectives(const NcclLibrary& library, Transport& transport, void* stream,
                                                         double timeout, std::function<void()>&& before_end) {
  return std::make_unique<NcclCollectives>(library, transport, stream, timeout, std::move(before_end));
}

}  // namespace octet
