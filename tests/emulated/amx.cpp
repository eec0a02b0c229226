// The AMX tier's text on emulated tiles, so that machines without AMX can test it. It packs with AVX-512 VNNI.
#include <immintrin.h>

#define OCTET_TIER amx_emulated
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"
#include "kernels/cpu/contraction_bytes.inc"

namespace octet::cpu::amx_emulated {
namespace {

thread_local uint8_t tiles[8][16][64];  // the processor's state, per thread as there

void tile_configure() { memset(tiles, 0, sizeof tiles); }
void tile_release() { memset(tiles, 0xFF, sizeof tiles); }
void tile_load(int tile, const void* from, int64_t step) {
  for (int row = 0; row < 16; ++row) memcpy(tiles[tile][row], static_cast<const char*>(from) + row * step, 64);
}
void tile_store(int tile, void* to, int64_t step) {
  for (int row = 0; row < 16; ++row) memcpy(static_cast<char*>(to) + row * step, tiles[tile][row], 64);
}
// Not watched: its indices cannot leave the tiles, and checks of each byte would take minutes. tile_load() and
// tile_store() are watched.
// Intel SDM, TDPBUSD: sum[m][n] += the four products of unsigned a[m][k] and signed b[k][n], for every k.
__attribute__((no_sanitize("address", "undefined"))) void tile_dot(int sum_tile, int a, int b) {
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 16; ++n) {
        uint32_t sum;
        memcpy(&sum, &tiles[sum_tile][m][4 * n], 4);
        for (int i = 0; i < 4; ++i)
          sum += static_cast<uint32_t>(tiles[a][m][4 * k + i] * static_cast<int8_t>(tiles[b][k][4 * n + i]));
        memcpy(&tiles[sum_tile][m][4 * n], &sum, 4);
      }
}

}  // namespace
}  // namespace octet::cpu::amx_emulated

#define TILE_LOAD tile_load
#define TILE_STORE tile_store
#define TILE_DOT tile_dot
#include "kernels/cpu/contraction_matrix.inc"
