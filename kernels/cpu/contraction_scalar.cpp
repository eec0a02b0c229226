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

struct Depthwise : Pairs {
  using Vector = i32x16;
  static constexpr int max_blocks = 1, tile = 2;
  static constexpr bool depthwise = true;
  static Vector load_vector(const void* from) { return load<Vector>(from); }
  static void store_vector(void* to, Vector v) { store(to, v); }
  static Vector interleaved(const void* a, const void* b) {
    const i32x16 low = __builtin_convertvector(load<i16x16>(a), i32x16),
                 high = __builtin_convertvector(load<i16x16>(b), i32x16);
    return (low & 0xFFFF) | (high << 16);
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) {
    return sum + ((x << 16) >> 16) * ((w << 16) >> 16) + (x >> 16) * (w >> 16);
  }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();
constinit const ContractionKernels depthwise_kernels = kernels_of<Depthwise>();
constinit const ContractionKernels real_kernels = kernels_of<Real>();

}  // namespace octet::cpu::scalar
