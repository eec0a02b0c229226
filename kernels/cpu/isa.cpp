// Which instruction sets there are, and which of them this processor and operating system run.
#include <algorithm>
#include <array>

#include "kernels/backend.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace octet {
namespace {
constexpr std::array<const char*, 4> names = {"scalar", "avx2", "avx512_vnni", "amx"};

#if defined(__x86_64__)
// AMX needs the processor's tile and int8 units, and the system's leave to use the tile registers (Linux 5.16).
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amx_tile = 1u << 24, amx_int8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & amx_tile) == 0 || (d & amx_int8) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif
}  // namespace

const char* name_of(Isa isa) { return names[static_cast<size_t>(isa)]; }

Isa isa_from_name(const std::string& name) {
  std::string known;
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<Isa>(i);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw UsageError(__FILE__, __LINE__, say("there is no instruction set '", name, "'"), "choose one of " + known);
}

Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::scalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  if (!avx512) return Isa::avx2;
  return has_amx() ? Isa::amx : Isa::avx512_vnni;
#else
  return Isa::scalar;
#endif
}

Isa default_isa() { return std::min(best_isa(), Isa::avx512_vnni); }

}  // namespace octet
