#include "comm/agreement.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/host_name.h"

namespace octet {
namespace {

// The values of all ranks, rank after rank.
template <class Value>
std::vector<Value> gather(Transport& transport, std::span<const Value> mine) {
  std::vector<Value> all(mine.size() * static_cast<size_t>(transport.size()));
  transport.all_gather(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
  return all;
}

// "0x11 on ranks 0 2, 0x12 on ranks 1", or empty when all are equal. `values` holds one per rank, `stride` apart.
std::string difference(const uint64_t* values, size_t stride, int ranks) {
  std::map<uint64_t, std::string> holders;
  for (int rank = 0; rank < ranks; ++rank) holders[values[static_cast<size_t>(rank) * stride]] += say(" ", rank);
  if (holders.size() == 1) return {};
  std::string text;
  for (const auto& [value, who] : holders)
    text += say(text.empty() ? "" : ", ", "0x", std::hex, value, " on ranks", who);
  return text;
}

struct RankBuild {
  std::array<char, 192> build{};
  std::array<char, 64> host{};
};

template <size_t size>
void put(std::array<char, size>& field, const std::string& text) {
  std::copy_n(text.begin(), std::min(text.size(), size - 1), field.begin());
}

// Searches the notes of the first object, which is the program.
int find_build_id(dl_phdr_info* object, size_t /*size*/, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of the loader are numbers
    const auto* at = reinterpret_cast<const char*>(object->dlpi_addr + header.p_vaddr);
    const char* const end = at + header.p_memsz;
    const auto padded = [](size_t length) { return (length + 3) / 4 * 4; };
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* const name = at + sizeof note;
      const char* const id = name + padded(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        constexpr const char* digits = "0123456789abcdef";
        for (size_t byte = 0; byte < note.n_descsz; ++byte) {
          const auto value = static_cast<unsigned char>(id[byte]);
          static_cast<std::string*>(found)->append({digits[value >> 4], digits[value & 15]});
        }
        return 1;
      }
      at = id + padded(note.n_descsz);
    }
  }
  return 1;
}

}  // namespace

void check_agreement(Transport& transport, std::span<const std::string> names, std::span<const uint64_t> hashes) {
  REQUIRE(names.size() == hashes.size(), "give one hash for every name", names.size(), " names and ", hashes.size(),
          " hashes");
  const uint64_t count = hashes.size();
  const std::string counts = difference(gather(transport, std::span(&count, 1)).data(), 1, transport.size());
  REQUIRE(counts.empty(), "start every rank with the same program and configuration",
          "ranks hold different numbers of parameters: ", counts);
  const std::vector<uint64_t> all = gather(transport, hashes);
  for (size_t i = 0; i < count; ++i) {
    const std::string differs = difference(all.data() + i, count, transport.size());
    REQUIRE(differs.empty(), "resume from the last checkpoint; if it happens again, test the memory of the hosts",
            "ranks disagree about '", names[i], "': ", differs);
  }
}

std::string build_id() {
  std::string id;
  dl_iterate_phdr(find_build_id, &id);
  return id;
}

void require_same_build(Transport& transport, const std::string& build) {
  RankBuild own;
  put(own.build, build);
  put(own.host, host_name());
  const std::vector<RankBuild> all = gather(transport, std::span<const RankBuild>(&own, 1));
  for (size_t rank = 1; rank < all.size(); ++rank)
    REQUIRE_USAGE(all[rank].build == all[0].build, "install the same build on all hosts", "rank ", rank, " on ",
                  all[rank].host.data(), " runs ", all[rank].build.data(), ", but rank 0 on ", all[0].host.data(),
                  " runs ", all[0].build.data());
}

}  // namespace octet
