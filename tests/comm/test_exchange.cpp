#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#include "comm/exchange.h"
#include "kernels/base/error.h"
#include "tests/comm/ranks.h"

namespace octet::test {
namespace {

// The parameters of ResNet-20 on 10 classes, last layer first: 0.27 million.
std::vector<GradientSlice> resnet20() {
  std::vector<size_t> counts = {10, 640};  // fc
  for (size_t width : {64, 32, 16})
    for (int block = 0; block < 3; ++block)
      for (size_t input : {width, block == 2 && width > 16 ? width / 2 : width})
        counts.insert(counts.end(), {width, width, width * input * 9});
  counts.insert(counts.end(), {16, 16, 16 * 3 * 9});
  std::vector<GradientSlice> slices;
  size_t offset = 0;
  for (size_t count : counts) {
    slices.push_back({offset, count, count < 2048});
    offset += count;
  }
  return slices;
}
size_t floats_of(const std::vector<GradientSlice>& slices) { return slices.back().offset + slices.back().count; }

// What rank holds: smooth in no way, of another magnitude in every thousand elements. Every rank can compute all
// ranks'.
std::vector<float> gradient_of(int rank, size_t count, uint32_t step = 0) {
  std::vector<float> gradient(count);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = random_bits16({.seed = 99, .step = step, .layer_id = static_cast<uint32_t>(rank)}, i);
    gradient[i] = (static_cast<float>(bits) / 32768 - 1) * std::exp2(-static_cast<float>(i / 1000 % 20));
  }
  return gradient;
}
std::vector<double> true_sum(int ranks, size_t count, uint32_t step = 0) {
  std::vector<double> sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> gradient = gradient_of(rank, count, step);
    for (size_t i = 0; i < count; ++i) sum[i] += gradient[i];
  }
  return sum;
}
// The scale that each element's block has; 0 for elements of exact slices.
std::vector<double> steps_of(int ranks, const std::vector<GradientSlice>& slices, size_t block) {
  const size_t count = floats_of(slices);
  std::vector<double> steps(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> gradient = gradient_of(rank, count);
    for (const GradientSlice& slice : slices)
      for (size_t at = 0; at < slice.count && !slice.exact; at += block) {
        const size_t first = slice.offset + at, last = first + std::min(block, slice.count - at);
        double absmax = 0;
        for (size_t i = first; i < last; ++i) absmax = std::max<double>(absmax, std::abs(gradient[i]));
        for (size_t i = first; i < last; ++i) steps[i] = std::max(steps[i], absmax / 127);
      }
  }
  return steps;
}

void run(GradientExchange& exchange, size_t slices, uint32_t step) {
  exchange.begin(step);
  for (size_t slice = 0; slice < slices; ++slice) exchange.ready(slice);
  exchange.finish();
}

bool same_bits_on_all_ranks(Transport& transport, std::span<const float> values) {
  std::vector<float> all(values.size() * static_cast<size_t>(transport.size()));
  transport.all_gather(std::as_bytes(values), std::as_writable_bytes(std::span(all)));
  for (int rank = 0; rank < transport.size(); ++rank)
    if (std::memcmp(all.data() + static_cast<size_t>(rank) * values.size(), values.data(), values.size_bytes()) != 0)
      return false;
  return true;
}

// The result of one exchange of step `step`.
std::vector<float> exchanged(Transport& transport, const ExchangeConfig& config, uint32_t step = 0) {
  const auto slices = resnet20();
  std::vector<float> gradient = gradient_of(transport.rank(), floats_of(slices), step);
  const auto exchange = make_exchange(config, transport.duplicate(), gradient, slices, 1);
  run(*exchange, slices.size(), step);
  EXPECT_TRUE(same_bits_on_all_ranks(transport, gradient));
  return gradient;
}

TEST(Exchange, Fp32SumsWithTheSameBitsOnAllRanks) {
  on_ranks([](Transport& transport) {
    const std::vector<float> sum = exchanged(transport, {.kind = ExchangeKind::fp32, .bucket_bytes = 100000});
    const std::vector<double> truth = true_sum(transport.size(), sum.size());
    for (size_t i = 0; i < sum.size(); ++i)  // each of size - 1 additions rounds a partial sum below size
      ASSERT_NEAR(sum[i], truth[i], transport.size() * transport.size() * 0x1p-24) << i;
  });
}

TEST(Exchange, ExactAddsIntegers) {
  on_ranks([](Transport& transport) {
    const auto slices = resnet20();
    std::vector<int64_t> sums(floats_of(slices));
    const auto value = [](int rank, size_t i) { return int64_t(philox(i, 1, uint32_t(rank), 5).word[0]) << 20; };
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = value(transport.rank(), i);
    const auto exchange = make_exchange({.kind = ExchangeKind::exact, .bucket_bytes = 100000}, transport.duplicate(),
                                        sums, slices, 1);
    run(*exchange, slices.size(), 0);
    for (size_t i = 0; i < sums.size(); ++i) {
      int64_t truth = 0;
      for (int rank = 0; rank < transport.size(); ++rank) truth += value(rank, i);
      ASSERT_EQ(sums[i], truth) << i;
    }
    std::vector<float> floats(sums.size());
    EXPECT_THROW(make_exchange({.kind = ExchangeKind::exact}, transport.duplicate(), floats, slices, 1), Error);
  });
}

TEST(Exchange, Int8StaysWithinTheScales) {
  on_ranks([](Transport& transport) {
    const double ranks = transport.size();
    const std::vector<float> sum = exchanged(transport, {});
    const std::vector<double> truth = true_sum(transport.size(), sum.size());
    const std::vector<double> steps = steps_of(transport.size(), resnet20(), 1024);
    double squares = 0, allowed = 0, norm = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      const double error = sum[i] - truth[i];
      // Each rank's rounding errs by less than a step, the sum's by less than a step times size.
      ASSERT_LE(std::abs(error), 2 * ranks * steps[i] * 1.001 + ranks * ranks * 0x1p-24) << i;
      squares += error * error;
      norm += truth[i] * truth[i];
      allowed +=
          (ranks + ranks * ranks) / 4 * steps[i] * steps[i];  // a stochastic rounding's variance is <= step^2 / 4
    }
    EXPECT_LE(squares, 1.02 * allowed);
    if (transport.rank() == 0)
      std::printf("int8 exchange on %d ranks: relative error %.2e\n", transport.size(), std::sqrt(squares / norm));
  });
}

TEST(Exchange, Int8SendsAQuarterOfFp32) {
  on_ranks([](Transport& transport) {
    const auto slices = resnet20();
    std::vector<float> gradient(floats_of(slices), 1);
    int64_t bytes[2];
    for (ExchangeKind kind : {ExchangeKind::fp32, ExchangeKind::int8}) {
      const auto exchange = make_exchange({.kind = kind}, transport.duplicate(), gradient, slices, 1);
      run(*exchange, slices.size(), 0);
      bytes[static_cast<int>(kind)] = exchange->wire_bytes();
    }
    const double ratio = static_cast<double>(bytes[1]) / static_cast<double>(bytes[0]);
    EXPECT_LE(ratio, 0.30);
    EXPECT_GE(ratio, 0.25);
    if (transport.rank() == 0) std::printf("int8 / fp32 bytes on %d ranks: %.3f\n", transport.size(), ratio);
  });
}

TEST(Exchange, Int8IsExactForIntegersThatFitTheScale) {
  on_ranks([](Transport& transport) {
    std::vector<float> gradient(5000);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(static_cast<int>(i % 255) - 127) / 8;
    std::vector<float> expected = gradient;
    for (float& x : expected) x *= static_cast<float>(transport.size());
    const auto exchange = make_exchange({.block = 512}, transport.duplicate(), gradient, {{0, gradient.size()}}, 1);
    run(*exchange, 1, 0);
    EXPECT_EQ(gradient, expected);
  });
}

TEST(Exchange, ResultDoesNotDependOnBuckets) {
  on_ranks([](Transport& transport) {
    const std::vector<float> reference = exchanged(transport, {});
    for (size_t bucket_bytes : {4, 5000, 100000})
      EXPECT_EQ(exchanged(transport, {.bucket_bytes = bucket_bytes}), reference);
    EXPECT_NE(exchanged(transport, {.block = 256}), reference);  // other scales: the comparison can fail
  });
}

// Sums of T exchanges of the same gradient, minus T times the truth.
std::vector<double> accumulated_error(Transport& transport, int steps, size_t count) {
  const std::vector<float> original = gradient_of(transport.rank(), count);
  std::vector<float> gradient = original;
  const auto exchange = make_exchange({}, transport.duplicate(), gradient, {{0, count}}, 1);
  std::vector<double> error = true_sum(transport.size(), count);
  for (double& x : error) x *= -steps;
  for (int step = 0; step < steps; ++step) {
    gradient = original;
    run(*exchange, 1, static_cast<uint32_t>(step));
    for (size_t i = 0; i < count; ++i) error[i] += gradient[i];
  }
  return error;
}

TEST(Exchange, Int8IsUnbiased) {
  on_ranks([](Transport& transport) {
    const size_t count = 2500;
    const int steps = 400;
    const double ranks = transport.size(), deviation = std::sqrt((ranks + ranks * ranks) / 4 * steps);
    const std::vector<double> scale = steps_of(transport.size(), {{0, count}}, 1024);
    const std::vector<double> error = accumulated_error(transport, steps, count);
    double worst = 0, mean = 0;
    for (size_t i = 0; i < count; ++i) {
      worst = std::max(worst, std::abs(error[i]) / scale[i]);
      mean += error[i] / scale[i] / static_cast<double>(count);
    }
    EXPECT_LE(worst, 5 * deviation);
    // 16 random bits round down by at most 2^-16 of a code each time.
    EXPECT_LE(std::abs(mean), 5 * deviation / std::sqrt(count) + 2 * ranks * steps * 0x1p-16);
  });
}

// Were all ranks to round with the same random bits, their errors would add up instead of averaging out.
TEST(Exchange, RanksRoundIndependently) {
  on_ranks([](Transport& transport) {
    const double ranks = transport.size(), sum = 1.5 * ranks - 1;
    std::vector<float> gradient(32768, transport.rank() == 0 ? 0.5f : 1.5f);
    for (size_t i = 0; i < gradient.size(); i += 1024) gradient[i] = 127;  // the step of every block is 1
    const auto exchange = make_exchange({}, transport.duplicate(), gradient, {{0, gradient.size()}}, 1);
    run(*exchange, 1, 0);
    double squares = 0;
    for (float x : gradient) squares += x > 126 ? 0 : (x - sum) * (x - sum);
    // ranks / 4 of the first rounding, at most ranks^2 / 4 of the second; with the same bits the first would be ranks^2
    // / 4.
    EXPECT_LE(squares / static_cast<double>(gradient.size()), 1.05 * (ranks + ranks * ranks) / 4);
  });
}

TEST(Exchange, NonFiniteValuesReachAllRanks) {
  on_ranks([](Transport& transport) {
    const float bad[] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()};
    for (float value : bad) {
      std::vector<float> gradient(4096, 1);
      const auto exchange =
          make_exchange({}, transport.duplicate(), gradient, {{0, 3000}, {3000, 96, true}, {3096, 1000}}, 1);
      if (transport.rank() == 1) gradient[1500] = gradient[3050] = value;
      run(*exchange, 3, 0);
      for (size_t i = 0; i < gradient.size(); ++i)
        ASSERT_EQ(std::isfinite(gradient[i]), !((i >= 1024 && i < 2048) || i == 3050)) << i;
      std::ranges::fill(gradient, 1);  // and the next step is clean
      run(*exchange, 3, 1);
      for (float x : gradient) ASSERT_NEAR(x, transport.size(), 2 * transport.size() / 127.0 * 1.02);
    }
  });
}

TEST(Exchange, ZerosStayZero) {
  on_ranks([](Transport& transport) {
    std::vector<float> gradient(3000, 0);
    const auto exchange = make_exchange({}, transport.duplicate(), gradient, {{0, 3000}}, 1);
    run(*exchange, 1, 0);
    EXPECT_EQ(gradient, std::vector<float>(3000, 0));
  });
}

TEST(Exchange, OneRankTouchesNothing) {
  const std::vector<float> original = gradient_of(0, 3000);
  std::vector<float> gradient = original;
  if (world().size() > 1) GTEST_SKIP() << "for one rank";
  const auto exchange = make_exchange({}, world().duplicate(), gradient, {{0, 3000}}, 1);
  run(*exchange, 1, 0);
  EXPECT_EQ(gradient, original);
  EXPECT_EQ(exchange->wire_bytes(), 0);
}

TEST(Exchange, ManyStepsOverlapWithTheCallersWork) {
  on_ranks([](Transport& transport) {
    const auto slices = resnet20();
    std::vector<float> gradient(floats_of(slices));
    for (ExchangeKind kind : {ExchangeKind::fp32, ExchangeKind::int8}) {
      const auto exchange =
          make_exchange({.kind = kind, .bucket_bytes = 20000}, transport.duplicate(), gradient, slices, 1);
      for (uint32_t step = 0; step < 5; ++step) {
        exchange->begin(step);
        for (size_t i = 0; i < slices.size(); ++i) {  // "backward" writes a slice while earlier ones are on their way
          const float value = static_cast<float>(i + step + 1);
          std::this_thread::sleep_for(std::chrono::microseconds(100));
          std::fill_n(gradient.begin() + static_cast<std::ptrdiff_t>(slices[i].offset), slices[i].count, value);
          exchange->ready(i);
        }
        exchange->finish();
        for (size_t i = 0; i < slices.size(); ++i)  // constant blocks: all codes are 127
          ASSERT_NEAR(gradient[slices[i].offset] / transport.size(), i + step + 1, 1e-4);
        ASSERT_TRUE(same_bits_on_all_ranks(transport, gradient));
      }
      EXPECT_GT(exchange->busy_seconds(), 0);
      EXPECT_GE(exchange->wait_seconds(), 0);
    }
  });
}

TEST(Exchange, WithoutOverlapNothingTravelsBeforeFinish) {
  on_ranks([](Transport& transport) {
    for (ExchangeKind kind : {ExchangeKind::fp32, ExchangeKind::int8}) {
      const ExchangeConfig overlapping{.kind = kind, .bucket_bytes = 20000};
      ExchangeConfig waiting = overlapping;
      waiting.overlap = false;
      EXPECT_EQ(exchanged(transport, waiting), exchanged(transport, overlapping));
      const auto slices = resnet20();
      std::vector<float> gradient = gradient_of(transport.rank(), floats_of(slices));
      const std::vector<float> before = gradient;
      const auto exchange = make_exchange(waiting, transport.duplicate(), gradient, slices, 1);
      exchange->begin(0);
      for (size_t i = 0; i < slices.size(); ++i) exchange->ready(i);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // an overlapping exchange is under way by now
      EXPECT_EQ(exchange->wire_bytes(), 0);
      EXPECT_EQ(gradient, before);
      exchange->finish();
      EXPECT_GT(exchange->wire_bytes(), 0);
    }
  });
}

// Throws in the second all-to-all, on every rank.
class FailingTransport final : public Transport {
 public:
  explicit FailingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return "failing"; }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int local_rank() const override { return inner_->local_rank(); }
  int local_size() const override { return inner_->local_size(); }
  std::unique_ptr<Transport> duplicate() override { return inner_->duplicate(); }
  void all_reduce_sum(std::span<float> values) override { inner_->all_reduce_sum(values); }
  void all_reduce_sum(std::span<double> values) override { inner_->all_reduce_sum(values); }
  void all_reduce_sum(std::span<int64_t> values) override { inner_->all_reduce_sum(values); }
  void all_reduce_max(std::span<float> values) override { inner_->all_reduce_max(values); }
  void reduce_sum(std::span<int64_t> values, int root) override { inner_->reduce_sum(values, root); }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_->broadcast(bytes, root); }
  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) override {
    if (++calls_ == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // finish() is waiting by now
    REQUIRE(calls_ < 2, "replace the cable", "the network is gone");
    inner_->all_to_all(send, receive, block_bytes);
  }
  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    inner_->all_gather(send, receive);
  }
  void barrier() override { inner_->barrier(); }
  [[noreturn]] void abort(int code) noexcept override { std::_Exit(code); }

 private:
  const std::unique_ptr<Transport> inner_;
  int calls_ = 0;
};

TEST(Exchange, AnErrorOfTheCommunicationThreadSurfaces) {
  on_ranks([](Transport& transport) {
    std::vector<float> gradient(8192, 1);
    const auto exchange = make_exchange(
        {.bucket_bytes = 4096}, std::make_unique<FailingTransport>(transport.duplicate()), gradient, {{0, 8192}}, 1);
    exchange->begin(0);
    exchange->ready(0);
    for (auto call : {+[](GradientExchange& e) { e.finish(); }, +[](GradientExchange& e) { e.begin(1); }}) {
      try {
        call(*exchange);
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("the network is gone"), std::string::npos) << error.what();
      }
    }
  });
}

TEST(Exchange, WrongUseIsRefused) {
  on_ranks([](Transport& transport) {
    std::vector<float> gradient(100);
    const std::vector<GradientSlice> slices = {{0, 60}, {60, 40}};
    EXPECT_THROW(make_exchange({}, transport.duplicate(), gradient, {{0, 60}, {70, 30}}, 1), Error);
    EXPECT_THROW(make_exchange({}, transport.duplicate(), gradient, {{0, 60}}, 1), Error);
    EXPECT_THROW(make_exchange({.block = 0}, transport.duplicate(), gradient, slices, 1), Error);
    EXPECT_THROW(make_exchange({.bucket_bytes = 0}, transport.duplicate(), gradient, slices, 1), Error);
    const auto exchange = make_exchange({}, transport.duplicate(), gradient, slices, 1);
    EXPECT_THROW(exchange->ready(0), Error);  // before begin()
    exchange->begin(0);
    EXPECT_THROW(exchange->ready(1), Error);
    exchange->ready(0);
    EXPECT_THROW(exchange->finish(), Error);
    EXPECT_THROW(exchange->begin(1), Error);
    exchange->ready(1);
    exchange->finish();
    exchange->begin(1);  // and destruction in the middle of a step is clean
  });
}

}  // namespace
}  // namespace octet::test
