#include "comm/agreement.h"

#include <map>
#include <vector>

#include "kernels/base/error.h"

namespace octet {
namespace {

// Gathers the values of all ranks, in rank order.
std::vector<uint64_t> gather(Transport& transport, std::span<const uint64_t> mine) {
  std::vector<uint64_t> all(mine.size() * static_cast<size_t>(transport.size()));
  transport.all_gather(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
  return all;
}

// "0x11 on ranks 0 2, 0x12 on ranks 1", or empty when all are equal. values: one per rank, `stride` elements apart.
std::string difference(const uint64_t* values, size_t stride, int ranks) {
  std::map<uint64_t, std::string> holders;
  for (int rank = 0; rank < ranks; ++rank) holders[values[static_cast<size_t>(rank) * stride]] += say(" ", rank);
  if (holders.size() == 1) return {};
  std::string text;
  for (const auto& [value, who] : holders)
    text += say(text.empty() ? "" : ", ", "0x", std::hex, value, " on ranks", who);
  return text;
}

}  // namespace

void check_agreement(Transport& transport, std::span<const std::string> names, std::span<const uint64_t> hashes) {
  REQUIRE(names.size() == hashes.size(), "give one hash for every name", names.size(), " names and ", hashes.size(),
          " hashes");
  const uint64_t count = hashes.size();
  const std::string counts = difference(gather(transport, {&count, 1}).data(), 1, transport.size());
  REQUIRE(counts.empty(), "start every rank with the same program and configuration",
          "ranks hold different numbers of parameters: ", counts);
  const std::vector<uint64_t> all = gather(transport, hashes);
  for (size_t i = 0; i < count; ++i) {
    const std::string differs = difference(all.data() + i, count, transport.size());
    REQUIRE(differs.empty(), "start again from the last checkpoint; if it happens again, test the hosts' memory",
            "ranks disagree about '", names[i], "': ", differs);
  }
}

}  // namespace octet
