// The exchange on a device against the host's, byte by byte, with threads for ranks.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "comm/exchange.h"
#include "kernels/backend.h"
#include "kernels/shared/encode.h"
#include "tests/comm/ranks.h"

namespace octet::test {

using MakeCollectives = std::function<std::unique_ptr<DeviceCollectives>(Transport&, Backend&, SideStream&)>;

// Slices that are smaller and larger than a block, of odd lengths, exact ones between the others.
inline std::vector<GradientSlice> odd_slices() {
  std::vector<GradientSlice> slices;
  size_t offset = 0;
  for (const auto& [count, exact] : {std::pair<size_t, bool>{10, true},
                                     {640, true},
                                     {3001, false},
                                     {5000, false},
                                     {17, true},
                                     {1, false},
                                     {255, false},
                                     {2048, false}}) {
    slices.push_back({offset, count, exact});
    offset += count;
  }
  return slices;
}

// Of another magnitude in every thousand elements; a block of zeros, one of subnormal numbers, at last one NaN.
inline std::vector<float> odd_gradient(int rank, uint32_t step, size_t count) {
  std::vector<float> gradient(count);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = random_bits16({.seed = 99, .step = step, .layer_id = static_cast<uint32_t>(rank)}, i);
    gradient[i] = (static_cast<float>(bits) / 32768 - 1) * std::exp2(-static_cast<float>(i / 1000 % 20));
    if (i >= 4000 && i < 6000) gradient[i] *= i < 5000 ? 0.0f : 0x1p-140f;
  }
  if (step == 2 && rank == 0) gradient[1500] = std::numeric_limits<float>::quiet_NaN();
  return gradient;
}

inline void begin_and_finish(GradientExchange& exchange, size_t slices, uint32_t step) {
  exchange.begin(step);
  for (size_t slice = 0; slice < slices; ++slice) exchange.ready(slice);
  exchange.finish();
}

// A NaN is one whatever its bits.
inline bool same_values(std::span<const float> a, std::span<const float> b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (bits_of(a[i]) != bits_of(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) {
      ADD_FAILURE() << "at " << i << ": " << a[i] << ", the host has " << b[i];
      return false;
    }
  return true;
}

// On this rank, over four steps, one of them not finite.
// recorded: the second and later ones are repeated from the second one's record.
inline void expect_the_hosts_sums(const ExchangeConfig& config, Transport& transport, const MakeCollectives& make,
                                  bool recorded) {
  const std::vector<GradientSlice> slices = odd_slices();
  const size_t count = slices.back().offset + slices.back().count;
  std::vector<float> on_host(count), from_device(count);
  const auto host = make_exchange(config, transport.duplicate(), on_host, slices, 7);

  const std::unique_ptr<Backend> backend = make_cuda_backend({});
  const std::unique_ptr<Buffer> gradient = backend->allocate(count * sizeof(float));
  std::unique_ptr<SideStream> stream = backend->make_side_stream();
  auto collectives = make(transport, *backend, *stream);
  const auto device = make_device_exchange(config, std::move(stream), std::move(collectives),
                                           std::span(static_cast<float*>(gradient->data()), count), slices, 7);
  for (uint32_t step = 0; step < 4; ++step) {
    std::ranges::copy(odd_gradient(transport.rank(), step, count), on_host.begin());
    backend->to_device(gradient->data(), on_host.data(), count * sizeof(float));
    begin_and_finish(*host, slices.size(), step);
    const auto work = [&] { begin_and_finish(*device, slices.size(), step); };
    if (recorded)
      backend->run(0, {.step = step}, work);
    else
      work();
    device->wait();
    backend->to_host(from_device.data(), gradient->data(), count * sizeof(float));
    EXPECT_TRUE(same_values(from_device, on_host)) << "step " << step << ", rank " << transport.rank();
  }
  EXPECT_EQ(device->wire_bytes(), host->wire_bytes());
}

// Every kind of exchange, on each number of ranks.
inline void expect_the_hosts_sums(const MakeCollectives& make, bool recorded,
                                  std::initializer_list<int> rank_counts = {1, 2, 3}) {
  const ExchangeConfig configs[] = {
      {.bucket_bytes = 9000},
      {.overlap = false},
      {.bucket_bytes = 4, .block = 700},  // blocks that begin anywhere; shards of padding alone
      {.kind = ExchangeKind::fp32, .bucket_bytes = 9000},
  };
  for (int ranks : rank_counts)
    for (const ExchangeConfig& config : configs) {
      SCOPED_TRACE(say(ranks, " ranks, configuration ", &config - configs));
      on_threads(ranks, [&](Transport& transport) { expect_the_hosts_sums(config, transport, make, recorded); });
    }
}

}  // namespace octet::test
