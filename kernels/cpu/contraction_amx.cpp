// AMX: tdpbusd on eight tile registers. tests/emulated/amx.cpp compiles the same text on emulated tiles, for machines
// without AMX.
#include <immintrin.h>

#define OCTET_TIER amx
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"
#include "kernels/cpu/contraction_bytes.inc"

namespace octet::cpu::amx {
namespace {

struct TileConfiguration {  // Intel SDM, LDTILECFG: palette 1
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

void tile_configure() {
  alignas(64) static constexpr TileConfiguration configuration;
  asm volatile("" ::: "memory");
  _tile_loadconfig(&configuration);
}
void tile_release() { _tile_release(); }
}  // namespace
}  // namespace octet::cpu::amx

// (gcc 12's intrinsics want literal tile numbers, and do not say that they read memory.)
#define TILE_LOAD(tile, from, step)    \
  do {                                 \
    asm volatile("" ::: "memory");     \
    _tile_loadd(tile, (from), (step)); \
  } while (0)
#define TILE_STORE(tile, to, step)    \
  do {                                \
    _tile_stored(tile, (to), (step)); \
    asm volatile("" ::: "memory");    \
  } while (0)
#define TILE_DOT(sum, a, b) _tile_dpbusd(sum, a, b)
#include "kernels/cpu/contraction_matrix.inc"
