// The AMX tier's text on emulated tiles, so that machines without AMX can test it. It packs and multiplies with AVX-512
// VNNI.
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
// Intel SDM, TDPBUSD: sum[m][n] += the four products of unsigned a[m][k] and signed b[k][n], for every k. AVX-512 VNNI
// has the same instruction for one row.
void tile_dot(int sum_tile, int a, int b) {
  for (int m = 0; m < 16; ++m) {
    __m512i sum = _mm512_loadu_si512(tiles[sum_tile][m]);
    for (int k = 0; k < 16; ++k) {
      int32_t four;
      memcpy(&four, &tiles[a][m][4 * k], 4);
      sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(four), _mm512_loadu_si512(tiles[b][k]));
    }
    _mm512_storeu_si512(tiles[sum_tile][m], sum);
  }
}

}  // namespace
}  // namespace octet::cpu::amx_emulated

#define TILE_LOAD tile_load
#define TILE_STORE tile_store
#define TILE_DOT tile_dot
#include "kernels/cpu/contraction_matrix.inc"
