// The exchange of gradients that stay on the device. There is no thread: buckets are enqueued on a second stream. The
// stream of the backend waits for it before it reads the gradients, and the host continues at once.
#include <optional>
#include <utility>

#include "comm/exchange.h"
#include "comm/exchange_tasks.h"

namespace octet {
namespace {

class DeviceExchange final : public GradientExchange {
 public:
  DeviceExchange(const ExchangeConfig& config, std::unique_ptr<SideStream> stream,
                 std::unique_ptr<DeviceCollectives> collectives, GradientBuffer gradient,
                 std::vector<GradientSlice> slices, uint64_t seed)
      : overlap_(config.overlap), stream_(std::move(stream)), collectives_(std::move(collectives)) {
    const auto make_codec = [this](CodecProblem problem) { return stream_->make_codec(std::move(problem)); };
    tasks_.emplace(config, *collectives_, make_codec, gradient, std::move(slices), seed);
  }

  void begin(uint32_t step) override {
    tasks_->begin(step);
    enqueued_ = 0;
    sent_before_ = collectives_->wire_bytes();
  }
  bool reads_gradients() const override { return false; }
  void ready(size_t slice) override {
    tasks_->ready(slice);
    if (overlap_) enqueue();
  }
  void finish() override {
    tasks_->require_all_ready();
    enqueue();
    if (tasks_->count() > 0) stream_->join();
    step_bytes_ = collectives_->wire_bytes() - sent_before_;
  }
  void wait() override {
    collectives_->wait_until([this] { return stream_->backend_idle(); });
    wire_bytes_ += step_bytes_;
  }

  int64_t wire_bytes() const override { return wire_bytes_; }
  double busy_seconds() const override { return 0; }
  double wait_seconds() const override { return 0; }

 private:
  // Enqueues the tasks whose slices the backend has been asked to compute.
  void enqueue() {
    const size_t complete = tasks_->complete();
    if (enqueued_ < complete) stream_->follow();
    for (; enqueued_ < complete; ++enqueued_) tasks_->run(enqueued_, tasks_->step());
  }

  const bool overlap_;
  size_t enqueued_ = 0;
  int64_t sent_before_ = 0, step_bytes_ = 0, wire_bytes_ = 0;
  // In this order, so that the collectives end first: memory and streams wait for the work that runs on them.
  const std::unique_ptr<SideStream> stream_;
  std::optional<ExchangeTasks> tasks_;
  const std::unique_ptr<DeviceCollectives> collectives_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_device_exchange(const ExchangeConfig& config, std::unique_ptr<SideStream> stream,
                                                       std::unique_ptr<DeviceCollectives> collectives,
                                                       GradientBuffer gradient, std::vector<GradientSlice> slices,
                                                       uint64_t seed) {
  return std::make_unique<DeviceExchange>(config, std::move(stream), std::move(collectives), gradient,
                                          std::move(slices), seed);
}

}  // namespace octet
