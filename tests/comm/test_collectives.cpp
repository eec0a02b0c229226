#include <gtest/gtest.h>

#include <vector>

#include "comm/transport.h"
#include "kernels/base/error.h"
#include "tests/comm/ranks.h"

namespace octet::test {
namespace {

TEST(Collectives, SumAndMax) {
  on_ranks([](Transport& transport) {
    const int ranks = transport.size();
    std::vector<float> f(1001, static_cast<float>(transport.rank() + 1));
    std::vector<double> d(3, transport.rank() + 0.5);
    std::vector<float> m = {static_cast<float>(transport.rank()), static_cast<float>(-transport.rank())};
    transport.all_reduce_sum(std::span(f));
    transport.all_reduce_sum(std::span(d));
    transport.all_reduce_max(m);
    for (float x : f) ASSERT_EQ(x, ranks * (ranks + 1) / 2);
    EXPECT_EQ(d[2], 0.5 * ranks * ranks);  // 0.5 + 1.5 + ...
    EXPECT_EQ(m, (std::vector<float>{static_cast<float>(ranks - 1), 0}));
  });
}

// Sums of floats whose last bits depend on the order of the ranks.
template <class T>
void expect_sums_in_rank_order(Transport& transport, size_t count) {
  const auto value = [](int rank, size_t i) { return T(1) / T(1 + 7 * static_cast<size_t>(rank) + 3 * (i % 1000)); };
  std::vector<T> sums(count), expected(count);
  for (size_t i = 0; i < count; ++i) {
    sums[i] = value(transport.rank(), i);
    for (int rank = 0; rank < transport.size(); ++rank) expected[i] += value(rank, i);
  }
  transport.all_reduce_sum(std::span(sums));
  EXPECT_EQ(sums, expected) << count;
}

TEST(Collectives, SumsAreTakenInRankOrder) {
  on_ranks([](Transport& transport) {
    for (const size_t count : {0, 1, 3, 1001, 300007}) {
      expect_sums_in_rank_order<float>(transport, count);
      expect_sums_in_rank_order<double>(transport, count);
    }
  });
}

TEST(Collectives, ReduceLeavesTheResultOnRoot) {
  on_ranks([](Transport& transport) {
    std::vector<int64_t> values = {transport.rank(), 1};
    transport.reduce_sum(values, 1);
    if (transport.rank() == 1) {
      EXPECT_EQ(values, (std::vector<int64_t>{transport.size() * (transport.size() - 1) / 2, transport.size()}));
    }
  });
}

TEST(Collectives, BroadcastTakesRootsBytes) {
  on_ranks([](Transport& transport) {
    std::vector<int32_t> values(5, transport.rank());
    transport.broadcast(std::as_writable_bytes(std::span(values)), 1);
    EXPECT_EQ(values, std::vector<int32_t>(5, 1));
  });
}

TEST(Collectives, AllToAllAndAllGather) {
  on_ranks([](Transport& transport) {
    const int ranks = transport.size(), rank = transport.rank();
    std::vector<int32_t> send, transposed, received(static_cast<size_t>(ranks)), gathered(static_cast<size_t>(ranks));
    for (int other = 0; other < ranks; ++other) {
      send.push_back(100 * rank + other);
      transposed.push_back(100 * other + rank);
    }
    transport.all_to_all(std::as_bytes(std::span(send)), std::as_writable_bytes(std::span(received)), 4);
    EXPECT_EQ(received, transposed);
    transport.all_gather(std::as_bytes(std::span(&rank, 1)), std::as_writable_bytes(std::span(gathered)));
    for (int other = 0; other < ranks; ++other) EXPECT_EQ(gathered[static_cast<size_t>(other)], other);
    transport.barrier();
  });
}

TEST(Collectives, WireBytesFollowTheFormula) {
  on_ranks([](Transport& transport) {
    const int64_t ranks = transport.size();
    std::vector<float> values(static_cast<size_t>(6 * ranks));
    transport.all_reduce_sum(std::span(values));
    EXPECT_EQ(transport.wire_bytes(), 2 * (ranks - 1) * 24);
    std::vector<std::byte> blocks(static_cast<size_t>(10 * ranks)), received(blocks.size());
    transport.all_to_all(blocks, received, 10);
    transport.all_gather(std::span(blocks).first(10), received);
    EXPECT_EQ(transport.wire_bytes(), 2 * (ranks - 1) * (24 + 10));
  });
}

TEST(Collectives, DuplicatesDoNotMix) {
  on_ranks([](Transport& transport) {
    const auto other = transport.duplicate();
    EXPECT_EQ(other->rank(), transport.rank());
    EXPECT_EQ(other->size(), transport.size());
    std::vector<float> a = {1}, b = {2};
    transport.all_reduce_sum(std::span(a));
    other->all_reduce_sum(std::span(b));
    EXPECT_EQ(b[0], 2 * a[0]);
    EXPECT_EQ(other->wire_bytes(), transport.wire_bytes());
  });
}

TEST(Collectives, RanksOfThisHostAreCounted) {
  EXPECT_GE(world().local_rank(), 0);
  EXPECT_LT(world().local_rank(), world().local_size());
  EXPECT_EQ(world().local_size(), world().size());  // the tests run on one host
}

TEST(Collectives, MpiIsStartedOnceAndRefusesWrongBlocks) {
  if (world().name() != "mpi") GTEST_SKIP() << "not started by an MPI launcher";
  EXPECT_THROW(make_mpi_transport(nullptr, nullptr), Error);
  std::vector<std::byte> small(1), large(64);
  EXPECT_THROW(world().all_gather(large, small), Error);
  EXPECT_THROW(world().all_to_all(small, large, 8), Error);
  std::vector<int64_t> values(1);
  try {
    world().reduce_sum(values, world().size());
    FAIL() << "root is no rank";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("MPI_Reduce"), std::string::npos) << error.what();
  }
}

TEST(Self, EveryCollectiveIsTheIdentity) {
  const auto self = make_self_transport();
  EXPECT_EQ(self->name(), "self");
  EXPECT_EQ(self->size(), 1);
  std::vector<float> values = {1, 2};
  self->all_reduce_sum(std::span(values));
  self->all_reduce_max(values);
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
  std::vector<float> received(2);
  self->all_gather(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(received)));
  EXPECT_EQ(received, values);
  EXPECT_EQ(self->wire_bytes(), 0);
  EXPECT_THROW(self->all_gather({}, std::as_writable_bytes(std::span(received))), Error);
}

}  // namespace
}  // namespace octet::test
