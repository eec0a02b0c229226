// Held activation ranges: what a step measures, and what the next step uses.
#include <gtest/gtest.h>

#include <cmath>

#include "src/quant/ranges.h"

namespace octet {
namespace {

// Two ranks: the other one sees `other` as its largest magnitude.
class Pair final : public Transport {
 public:
  float other = 0;
  std::string name() const override { return "pair"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 2; }
  std::unique_ptr<Transport> duplicate() override { return nullptr; }
  void all_reduce_sum(std::span<float>) override {}
  void all_reduce_sum(std::span<double>) override {}
  void all_reduce_sum(std::span<int64_t>) override {}
  void reduce_sum(std::span<int64_t>, int) override {}
  void all_reduce_max(std::span<float> values) override {
    for (float& value : values) value = std::max(value, other);
  }
  void all_to_all(std::span<const std::byte>, std::span<std::byte>, size_t) override {}
  void all_gather(std::span<const std::byte>, std::span<std::byte>) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void barrier() override {}
  void abort(int) noexcept override { std::abort(); }
};

struct Held {
  Pair transport;
  std::unique_ptr<Backend> backend = make_reference_backend();
  ActivationRanges ranges{transport, *backend};
  std::vector<float> values = std::vector<float>(2);
  Encoding encoding{.dtype = DType::u8, .qmax = 255, .range = Range::held};
  Held() {
    EXPECT_EQ(ranges.add_layer("conv1"), 0);
    EXPECT_EQ(ranges.add_layer("conv2"), 1);
    EXPECT_EQ(ranges.add_layer("conv1"), 0);
    ranges.bind(values.data());
    ranges.begin();
  }
  // A step in which the layer's largest magnitude is `largest`. Returns the range that encoded it.
  float encode(int layer, float largest, uint64_t saturated = 0) {
    float used = 0;
    ranges.encode(layer, encoding, true, [&](const Encoding& e, Probe probe) {
      if (e.range == Range::absmax) {
        *probe.largest = std::max(*probe.largest, largest);
        return;
      }
      used = *e.held;
      *probe.saturated += saturated;
    });
    return used;
  }
  void finish() {
    std::vector<double> counts(4);
    ranges.counts(std::vector<int64_t>{1000, 1000}, counts);
    ranges.update(counts);
    ranges.begin();
  }
};

TEST(Ranges, TheFirstStepMeasuresOverAllRanks) {
  Held h;
  h.transport.other = 3;
  EXPECT_FALSE(h.ranges.settled());
  EXPECT_EQ(h.encode(0, 2), 3);
  EXPECT_EQ(h.encode(1, 5), 5);
  EXPECT_TRUE(h.ranges.settled());
  EXPECT_EQ(h.values[0], 3);
  EXPECT_EQ(h.values[1], 5);
}

TEST(Ranges, AStepUsesTheRangeOfTheStepsBefore) {
  Held h;
  h.encode(0, 2), h.encode(1, 2);
  h.finish();
  const float second = 0.99f * 2;          // nothing saturated
  EXPECT_EQ(h.encode(0, 8, 500), second);  // the step itself stands, with its values cut
  EXPECT_EQ(h.encode(1, 1), second);
  h.finish();
  EXPECT_DOUBLE_EQ(h.ranges.saturated_share(), 500.0 / 2000);
  EXPECT_EQ(h.encode(0, 8), 2 * second);  // at most doubled
  EXPECT_FLOAT_EQ(h.ranges.range(1), 0.99f * second);
}

TEST(Ranges, ASkippedStepLeavesNothing) {
  Held h;
  h.encode(0, 2), h.encode(1, 2);
  h.ranges.postpone();
  EXPECT_FALSE(h.ranges.settled());
  EXPECT_EQ(h.values[0], 0);
  h.ranges.begin();
  EXPECT_EQ(h.encode(0, 7), 7);
  EXPECT_EQ(h.encode(1, 7), 7);
  h.finish();
  h.encode(0, 100, 1000);
  h.ranges.postpone();
  EXPECT_EQ(h.ranges.range(0), 0.99f * 7);
}

TEST(Ranges, ARangeSettlesWhereOneOf32768Saturates) {
  EXPECT_EQ(next_range(3, 0x1p-15), 3);
  EXPECT_FLOAT_EQ(next_range(3, 0x1p-14), 3 * 1.01f);
  // Magnitudes with an exponential distribution: a share of exp(-r) lies beyond r.
  float range = 20;
  for (int step = 0; step < 1000; ++step) range = next_range(range, std::exp(-double(range)));
  EXPECT_NEAR(range, 15 * std::log(2), 1e-3);
}

TEST(Ranges, ZerosHaveASmallRangeThatRises) {
  Held h;
  const float least = h.encode(0, 0);
  EXPECT_GT(least, 0);
  h.encode(1, 1);
  h.finish();
  EXPECT_EQ(h.ranges.range(0), least);
  h.encode(0, 1, 900), h.encode(1, 1);
  h.finish();
  EXPECT_EQ(h.ranges.range(0), 2 * least);
}

TEST(Ranges, EvaluationWithoutARangeIsRefused) {
  Held h;
  const auto nothing = [](const Encoding&, Probe) {};
  try {
    h.ranges.encode(1, h.encoding, false, nothing);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("no range of the activation 'conv2'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace octet
