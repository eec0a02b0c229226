// Plain C++ for any processor: codes as s16 pairs. On vectors of 16 lanes, which gcc splits, but multiplies faster so.
#define OCTET_TIER scalar
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"

namespace octet::cpu::scalar {
namespace {

struct Codes : Pairs {
  using Vector = i32xN;
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
  using Vector = f32xN;
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
  struct Vector {
    i32xN part[block_vectors];
  };
  static constexpr int max_blocks = 1, tile = 2;
  static constexpr bool depthwise = true;
  static Vector load_vector(const void* from) { return load<Vector>(from); }
  static void store_vector(void* to, Vector v) { store(to, v); }
  static Vector load_sums(const int32_t* from) { return load_vector(from); }
  static Vector interleaved(const void* a, const void* b) {
    Vector pairs;
    for (int i = 0; i < block_vectors; ++i) {
      const i32xN low = __builtin_convertvector(load<i16xN>(static_cast<const i16xN*>(a) + i), i32xN);
      const i32xN high = __builtin_convertvector(load<i16xN>(static_cast<const i16xN*>(b) + i), i32xN);
      pairs.part[i] = (low & 0xFFFF) | (high << 16);
    }
    return pairs;
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) {
    for (int i = 0; i < block_vectors; ++i)
      sum.part[i] += ((x.part[i] << 16) >> 16) * ((w.part[i] << 16) >> 16) + (x.part[i] >> 16) * (w.part[i] >> 16);
    return sum;
  }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();
constinit const ContractionKernels depthwise_kernels = kernels_of<Depthwise>();
constinit const ContractionKernels real_kernels = kernels_of<Real>();
constinit const ContractionKernels digit_kernels = kernels_of<DigitsOf<Codes, 2, 12, 2>>();

}  // namespace octet::cpu::scalar
