#include "comm/same_build.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/base/host_name.h"

namespace octet {
namespace {

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

std::string build_id() {
  std::string id;
  dl_iterate_phdr(find_build_id, &id);
  return id;
}

void require_same_build(Transport& transport, const std::string& build) {
  RankBuild own;
  put(own.build, build);
  put(own.host, host_name());
  std::vector<RankBuild> all(static_cast<size_t>(transport.size()));
  transport.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  for (size_t rank = 1; rank < all.size(); ++rank)
    REQUIRE_USAGE(all[rank].build == all[0].build, "install the same build on all hosts", "rank ", rank, " on ",
                  all[rank].host.data(), " runs ", all[rank].build.data(), ", but rank 0 on ", all[0].host.data(),
                  " runs ", all[0].build.data());
}

}  // namespace octet
