// The order in which an exchange on a device asks streams and collectives; what they compute is tested in tests/cuda.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/exchange.h"
#include "kernels/base/error.h"

namespace octet::test {
namespace {

using Log = std::vector<std::string>;

class LoggedStream final : public SideStream {
 public:
  explicit LoggedStream(Log& log) : log_(log) {}
  void* handle() override { return nullptr; }
  void follow() override { log_.push_back("follow"); }
  void join() override { log_.push_back("join"); }
  bool backend_idle() override { return true; }
  std::unique_ptr<BlockCodec> make_codec(CodecProblem) override { return nullptr; }

 private:
  Log& log_;
};

class LoggedCollectives final : public DeviceCollectives {
 public:
  LoggedCollectives(Log& log, int ranks) : log_(log), ranks_(ranks) {}
  int rank() const override { return 0; }
  int size() const override { return ranks_; }
  void all_reduce_sum(std::span<int64_t> values) override { log_.push_back(say("exact sum ", values.size())); }
  void all_reduce_sum(std::span<float> values) override { log_.push_back(say("sum ", values.size())); }
  void all_reduce_max(std::span<float>) override {}
  void all_to_all(std::span<const std::byte>, std::span<std::byte>, size_t) override {}
  void all_gather(std::span<const std::byte>, std::span<std::byte>) override {}
  void wait_until(const std::function<bool()>& done) override { log_.push_back(done() ? "idle" : "busy"); }

 private:
  Log& log_;
  const int ranks_;
};

struct Logged {
  std::vector<float> gradient = std::vector<float>(110);
  Log log;
  std::unique_ptr<GradientExchange> exchange;
  Logged(bool overlap, int ranks) {
    exchange = make_device_exchange(
        {.kind = ExchangeKind::fp32, .overlap = overlap, .bucket_bytes = 240}, std::make_unique<LoggedStream>(log),
        std::make_unique<LoggedCollectives>(log, ranks), gradient, {{0, 40}, {40, 20}, {60, 30}, {90, 20}}, 1);
  }
  void step(uint32_t index) {
    exchange->begin(index);
    for (size_t slice = 0; slice < 4; ++slice) {
      log.push_back(say("ready ", slice));
      exchange->ready(slice);
    }
    log.push_back("finish");
    exchange->finish();
    exchange->wait();
  }
};

TEST(DeviceExchange, ABucketFollowsItsLastSliceAndTheBackendJoinsAtTheEnd) {
  Logged logged(true, 2);
  const Log step = {"ready 0", "ready 1", "follow", "sum 60", "ready 2", "ready 3",
                    "follow",  "sum 50",  "finish", "join",   "idle"};
  logged.step(0);
  EXPECT_EQ(logged.log, step);
  logged.log.clear();
  logged.step(1);
  EXPECT_EQ(logged.log, step);
  EXPECT_FALSE(logged.exchange->reads_gradients());
}

TEST(DeviceExchange, WithoutOverlapNothingIsAskedBeforeFinish) {
  Logged logged(false, 2);
  logged.step(0);
  EXPECT_EQ(logged.log,
            (Log{"ready 0", "ready 1", "ready 2", "ready 3", "finish", "follow", "sum 60", "sum 50", "join", "idle"}));
}

TEST(DeviceExchange, OneRankAsksForNothing) {
  Logged logged(true, 1);
  logged.step(0);
  EXPECT_EQ(logged.log, (Log{"ready 0", "ready 1", "ready 2", "ready 3", "finish", "idle"}));
}

TEST(DeviceExchange, WrongOrderIsRefused) {
  Logged logged(true, 2);
  EXPECT_THROW(logged.exchange->ready(0), Error);  // before begin()
  logged.exchange->begin(0);
  EXPECT_THROW(logged.exchange->ready(1), Error);
  EXPECT_THROW(logged.exchange->finish(), Error);
  EXPECT_THROW(logged.exchange->begin(1), Error);
}

}  // namespace
}  // namespace octet::test
