// Which instruction sets there are, and which of them this processor and operating system run.
#include <algorithm>
#include <array>

#include "kernels/backend.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace octet {
namespace {
constexpr std::array<const char*, 5> names = {"scalar", "avx2", "avx512_vnni", "amx", "neon_dot"};

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

std::vector<Isa> available_isas() {
  std::vector<Isa> isas = {Isa::scalar};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return isas;
  isas.push_back(Isa::avx2);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  if (!avx512) return isas;
  isas.push_back(Isa::avx512_vnni);
  if (has_amx()) isas.push_back(Isa::amx);
#elif defined(__aarch64__)
  constexpr unsigned long dot_products = 1ul << 20;  // HWCAP_ASIMDDP
  if ((getauxval(AT_HWCAP) & dot_products) != 0) isas.push_back(Isa::neon_dot);
#endif
  return isas;
}

Isa best_isa() { return available_isas().back(); }

void require_available(Isa isa) {
  const std::vector<Isa> isas = available_isas();
  REQUIRE_USAGE(std::find(isas.begin(), isas.end(), isa) != isas.end(),
                say("choose ", name_of(isas.back()), " or a simpler one"), "this processor cannot run ", name_of(isa));
}

}  // namespace octet
