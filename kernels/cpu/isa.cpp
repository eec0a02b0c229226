// The table of instruction sets. A new one needs its kernels (contraction_TIER.cpp, and passes_TIER.cpp where another
// tier's do not serve), a value of enum Isa, a row here and in isa_kernels.cpp, and a row of compile flags in
// kernels/CMakeLists.txt.
#include "kernels/cpu/isa.h"

#include <algorithm>

#include "kernels/cpu/block_loops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace octet {
namespace cpu {

namespace scalar {
extern const BlockLoops block_loops;
}
namespace avx2 {
extern const BlockLoops block_loops;
}
namespace avx512 {
extern const BlockLoops block_loops;
}

namespace {

bool always() { return true; }
bool never() { return false; }
#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned avx_vnni = 1u << 4;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & avx_vnni) != 0;
}
bool has_avx512_vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
// AMX needs the processor's tile and int8 units, and the system's permission to use the tile registers (Linux 5.16).
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amx_tile = 1u << 24, amx_int8 = 1u << 25;
  if (!has_avx512_vnni() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & amx_tile) == 0 || (d & amx_int8) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#define OCTET_X86(...) \
  { __VA_ARGS__ }
#else
#define OCTET_X86(name, ...) \
  { name, never }
#endif
#if defined(__aarch64__)
bool has_neon_dot() {
  constexpr unsigned long dot_products = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & dot_products) != 0;
}
// The first layer and depthwise ones use the kernels of neon_dot.
bool has_neon_i8mm() {
  constexpr unsigned long matrix_products = 1ul << 13;  // HWCAP2_I8MM
  return has_neon_dot() && (getauxval(AT_HWCAP2) & matrix_products) != 0;
}
#define OCTET_ARM(...) \
  { __VA_ARGS__ }
#else
#define OCTET_ARM(name, ...) \
  { name, never }
#endif

// In the order of enum Isa; of those that a processor can run, the last is the best.
constexpr IsaRow table[] = {
    {"scalar", always, &scalar::block_loops},
    OCTET_X86("avx2", has_avx2, &avx2::block_loops),
    OCTET_X86("avx_vnni", has_avx_vnni, &avx2::block_loops),
    OCTET_X86("avx512_vnni", has_avx512_vnni, &avx512::block_loops),
    OCTET_X86("amx", has_amx, &avx512::block_loops),
    OCTET_ARM("neon_dot", has_neon_dot, &scalar::block_loops),
    OCTET_ARM("neon_i8mm", has_neon_i8mm, &scalar::block_loops),
};

}  // namespace

const IsaRow& row_of(Isa isa) {
  const IsaRow& row = table[static_cast<size_t>(isa)];
  REQUIRE_USAGE(row.available(), say("choose ", name_of(best_isa()), " or a simpler one"), "this processor cannot run ",
                row.name);
  return row;
}

}  // namespace cpu

const char* name_of(Isa isa) { return cpu::table[static_cast<size_t>(isa)].name; }

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const cpu::IsaRow& row : cpu::table) names.emplace_back(row.name);
  return names;
}

Isa isa_from_name(const std::string& name) {
  std::string known;
  for (size_t i = 0; i < std::size(cpu::table); ++i) {
    if (name == cpu::table[i].name) return static_cast<Isa>(i);
    known += (i == 0 ? "" : ", ") + std::string(cpu::table[i].name);
  }
  throw UsageError(__FILE__, __LINE__, say("there is no instruction set '", name, "'"), "choose one of " + known);
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (size_t i = 0; i < std::size(cpu::table); ++i)
    if (cpu::table[i].available()) isas.push_back(static_cast<Isa>(i));
  return isas;
}

Isa best_isa() { return available_isas().back(); }

}  // namespace octet
