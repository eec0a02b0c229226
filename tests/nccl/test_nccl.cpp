// Collectives by NCCL: over the emulated library, which the loader finds under its name, and over functions that fail.
#include <gtest/gtest.h>

#include <cstring>

#include "comm/nccl.h"
#include "comm/nccl_library.h"
#include "comm/transport.h"
#include "kernels/base/error.h"
#include "tests/cuda/exchange_cases.h"
#include "tests/cuda_emulation/device_memory.h"

namespace octet::test {
namespace {

TEST(Nccl, EveryCollective) {
  for (int ranks : {1, 2, 3})
    on_threads(ranks, [&](Transport& transport) {
      const auto nccl = make_nccl_collectives(transport, nullptr, 10, [] {});
      const int rank = nccl->rank();
      EXPECT_EQ(nccl->size(), ranks);
      std::vector<float> sum(50000, static_cast<float>(rank + 1)), max = {static_cast<float>(rank), -1.0f};
      nccl->all_reduce_sum(sum);
      nccl->all_reduce_max(max);
      EXPECT_EQ(sum, std::vector<float>(50000, 0.5f * static_cast<float>(ranks * (ranks + 1))));
      EXPECT_EQ(max, (std::vector<float>{static_cast<float>(ranks - 1), -1}));

      const size_t block = 40000, all = block * static_cast<size_t>(ranks);
      std::vector<std::byte> send(all), received(all), expected(all), gathered(all);
      const auto byte = [](size_t from, size_t to, size_t i) { return std::byte(100 * from + 10 * to + i % 7); };
      for (size_t i = 0; i < all; ++i) {
        send[i] = byte(static_cast<size_t>(rank), i / block, i);
        expected[i] = byte(i / block, static_cast<size_t>(rank), i % block + static_cast<size_t>(rank) * block);
      }
      nccl->all_to_all(send, received, block);
      EXPECT_EQ(received, expected);
      nccl->all_gather(std::span(send).first(block), gathered);
      for (size_t i = 0; i < all; ++i) ASSERT_EQ(gathered[i], byte(i / block, 0, i % block)) << i;
      EXPECT_EQ(nccl->wire_bytes(),
                2 * 200000 * (ranks - 1) / ranks + 2 * 8 * (ranks - 1) / ranks + int64_t(2 * block) * (ranks - 1));
      EXPECT_THROW(nccl->all_gather(send, std::span(received).first(1)), Error);
      int questions = 0;
      nccl->wait_until([&] { return ++questions == 3; });
      EXPECT_EQ(questions, 3);
    });
}

TEST(Nccl, TheExchangeOverItHasTheHostsBits) {
  const auto make = [](Transport& transport, Backend& backend, SideStream& stream) {
    return make_nccl_collectives(transport, stream.handle(), 10, [&backend] { backend.forget_programs(); });
  };
  cuda::protect_device_memory(true);
  for (const bool recorded : {false, true}) expect_the_hosts_sums(make, recorded);
  cuda::protect_device_memory(false);
}

// Functions of a library in which nothing goes wrong, for one rank; aborted counts.
int aborted, ended;
ncclResult_t state;
void count_ended() { ++ended; }
NcclLibrary working() {
  aborted = ended = 0;
  state = ncclSuccess;
  NcclLibrary library;
  library.get_version = [](int* version) { return *version = 21400, ncclSuccess; };
  library.get_unique_id = [](ncclUniqueId*) { return ncclSuccess; };
  library.init = [](ncclComm_t* to, int, ncclUniqueId, int, ncclConfig_t* config) {
    *to = reinterpret_cast<ncclComm_t>(&aborted);
    return config->blocking == 0 ? ncclInProgress : ncclInvalidArgument;
  };
  library.finalize = [](ncclComm_t) { return ended > 0 ? ncclSuccess : ncclInternalError; };
  library.destroy = [](ncclComm_t) { return ncclSuccess; };
  library.abort = [](ncclComm_t) {
    EXPECT_EQ(ended, aborted + 1);  // before_end came first
    return ++aborted, ncclSuccess;
  };
  library.get_async_error = [](ncclComm_t, ncclResult_t* to) { return *to = state, ncclSuccess; };
  library.error_string = [](ncclResult_t) { return "unhandled"; };
  library.last_error = [](ncclComm_t) { return "the reason"; };
  library.all_reduce = [](const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) {
    return ncclInProgress;
  };
  return library;
}

template <class Thrown>
void expect_thrown(const std::function<void()>& call, const std::vector<std::string>& words) {
  try {
    call();
    FAIL() << "no error";
  } catch (const Thrown& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(Nccl, WhatIsMissingIsAMistakeOfUse) {
  expect_thrown<UsageError>([] { load_nccl("libnccl_of_nobody.so.2"); },
                            {"NCCL cannot be loaded", "libnccl_of_nobody.so.2", "comm.transport: mpi"});
  expect_thrown<UsageError>([] { require_nccl_version(load_nccl("libc.so.6")); }, {"does not tell its version"});
  NcclLibrary old = working();
  const auto transport = make_self_transport();
  old.get_version = [](int* version) { return *version = 21304, ncclSuccess; };
  expect_thrown<UsageError>([&] { make_nccl_collectives(old, *transport, nullptr, 1, count_ended); },
                            {"this machine's NCCL is 2.13.4; octet needs 2.14"});
  EXPECT_EQ(nccl_obstacle(), "");
}

TEST(Nccl, TwoRanksOnOneGpuAreAMistakeOfUse) {
  const NcclLibrary library = working();
  const auto transport = make_self_transport();
  state = ncclInvalidUsage;
  expect_thrown<UsageError>([&] { make_nccl_collectives(library, *transport, nullptr, 1, count_ended); },
                            {"rank 0", "two share one GPU", "the reason", "a GPU of its own"});
  EXPECT_EQ(aborted, 1);
}

TEST(Nccl, AStartThatDoesNotEndIsAnError) {
  const NcclLibrary library = working();
  const auto transport = make_self_transport();
  state = ncclInProgress;
  expect_thrown<Error>([&] { make_nccl_collectives(library, *transport, nullptr, 0.02, count_ended); },
                       {"rank 0: ncclCommInitRankConfig has not ended after 0.02 s"});
  EXPECT_EQ(aborted, 1);
}

TEST(Nccl, APeerThatIsLostEndsTheWaitAndEveryLaterCall) {
  const auto transport = make_self_transport();
  const NcclLibrary library = working();
  const auto nccl = make_nccl_collectives(library, *transport, nullptr, 10, count_ended);
  std::vector<float> values(3);
  nccl->all_reduce_sum(values);
  state = ncclRemoteError;
  expect_thrown<Error>([&] { nccl->wait_until([] { return true; }); },
                       {"rank 0: ncclAllReduce failed: unhandled (the reason)"});
  EXPECT_EQ(aborted, 1);
  expect_thrown<Error>([&] { nccl->all_reduce_sum(values); }, {"NCCL ended after ncclAllReduce failed"});
  expect_thrown<Error>([&] { nccl->wait_until([] { return true; }); }, {"NCCL ended"});
}

TEST(Nccl, AWaitThatDoesNotEndIsAnError) {
  const auto transport = make_self_transport();
  const NcclLibrary library = working();
  const auto nccl = make_nccl_collectives(library, *transport, nullptr, 0.02, count_ended);
  std::vector<float> values(3);
  nccl->all_reduce_sum(values);
  expect_thrown<Error>([&] { nccl->wait_until([] { return false; }); }, {"rank 0: ncclAllReduce has not ended"});
  EXPECT_EQ(aborted, 1);
}

TEST(Nccl, AnExceptionOnItsWayAbortsInsteadOfWaitingForPeers) {
  const auto transport = make_self_transport();
  const NcclLibrary library = working();
  EXPECT_THROW(
      {
        const auto nccl = make_nccl_collectives(library, *transport, nullptr, 1, count_ended);
        throw Error("", 0, "", "");
      },
      Error);
  EXPECT_EQ(aborted, 1);
  make_nccl_collectives(library, *transport, nullptr, 1, count_ended);
  EXPECT_EQ(aborted, 1);
}

}  // namespace
}  // namespace octet::test
