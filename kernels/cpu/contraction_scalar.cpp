// Plain C++ for any processor: codes as s16 pairs.
#define OCTET_TIER scalar
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"

namespace octet::cpu::scalar {
namespace {

struct Codes : Pairs {
  using Vector = i32x16;
  static constexpr int max_blocks = 1, tile = 2;
  struct Two {
    int32_t low, high;
  };
  static Vector load_vector(const void* from) { return load<Vector>(from); }
  static void store_vector(void* to, Vector v) { store(to, v); }
  static Two broadcast(const void* word) {
    int16_t pair[2];
    memcpy(pair, word, 4);
    return {pair[0], pair[1]};
  }
  static Vector multiply_add(Vector sum, Two x, Vector w) {
    return sum + ((w << 16) >> 16) * x.low + (w >> 16) * x.high;
  }
};

struct Real : Singles {
  using Vector = f32x16;
  static constexpr int max_blocks = 1, tile = 2;
  static Vector load_vector(const void* from) { return load<Vector>(from); }
  static void store_vector(void* to, Vector v) { store(to, v); }
  static float broadcast(const void* word) {
    float x;
    memcpy(&x, word, 4);
    return x;
  }
  static Vector multiply_add(Vector sum, float x, Vector w) { return sum + w * x; }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();
constinit const ContractionKernels real_kernels = kernels_of<Real>();

}  // namespace octet::cpu::scalar
