// AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes.
#include <immintrin.h>

#include "kernels/cpu/depthwise_codes.h"

// What the compiler does not inline would keep its columns in memory.
#define OCTET_INLINE __attribute__((always_inline))

namespace octet::cpu::avx512 {
namespace {

constexpr int vectors = 4;  // that unpacking makes of the bytes of one

// The instructions on vectors of some number of bits, so that the last channels of a row do not fill a long one.
#define OCTET_BITS(bits, Ints, Floats, of)                                                                        \
  struct Bits##bits {                                                                                             \
    using Int = Ints;                                                                                             \
    static constexpr int channels = bits / 8;                                                                     \
    OCTET_INLINE static Int all(int byte) { return of##_set1_epi8(static_cast<char>(byte)); }                     \
    OCTET_INLINE static Int load(const void* from) { return of##_loadu_epi8(from); }                              \
    OCTET_INLINE static Int load(const void* from, uint64_t exist) { return of##_maskz_loadu_epi8(exist, from); } \
    OCTET_INLINE static void store(void* to, Int x) { of##_storeu_epi8(to, x); }                                  \
    OCTET_INLINE static void store(void* to, Int x, uint64_t exist) { of##_mask_storeu_epi8(to, exist, x); }      \
    OCTET_INLINE static Int low_bytes(Int a, Int b) { return of##_unpacklo_epi8(a, b); }                          \
    OCTET_INLINE static Int high_bytes(Int a, Int b) { return of##_unpackhi_epi8(a, b); }                         \
    OCTET_INLINE static Int low_pairs(Int a, Int b) { return of##_unpacklo_epi16(a, b); }                         \
    OCTET_INLINE static Int high_pairs(Int a, Int b) { return of##_unpackhi_epi16(a, b); }                        \
    OCTET_INLINE static Int multiply_add(Int sum, Int x, Int w) { return of##_dpbusd_epi32(sum, x, w); }          \
    /* The sum of 1.5 * 2^23 and the product is rounded once, to an integer, ties to even. */                     \
    OCTET_INLINE static Int scaled(Int sum, const float* factor) {                                                \
      const Floats magic = of##_set1_ps(0x1.8p23f);                                                               \
      const Floats rounded = of##_fmadd_ps(of##_cvtepi32_ps(sum), of##_loadu_ps(factor), magic);                  \
      return of##_sub_epi32(of##_castps_si##bits(rounded), of##_castps_si##bits(magic));                          \
    }                                                                                                             \
    OCTET_INLINE static Int join(Int a, Int b) { return of##_packs_epi32(a, b); }                                 \
    template <bool is_unsigned>                                                                                   \
    OCTET_INLINE static Int codes(Int a, Int b, Int lowest, Int highest) {                                        \
      return is_unsigned ? of##_min_epu8(of##_max_epu8(of##_packus_epi16(a, b), lowest), highest)                 \
                         : of##_min_epi8(of##_max_epi8(of##_packs_epi16(a, b), lowest), highest);                 \
    }                                                                                                             \
  };
OCTET_BITS(512, __m512i, __m512, _mm512)
OCTET_BITS(256, __m256i, __m256, _mm256)
OCTET_BITS(128, __m128i, __m128, _mm)
#undef OCTET_BITS

// Some channels of a row. whole: as many as a vector has bytes.
template <class Bits, int stride, bool is_unsigned, bool whole>
class Channels {
  using Int = typename Bits::Int;
  struct Column {  // of a pixel: three rows and a zero
    Int words[vectors];
  };

 public:
  OCTET_INLINE Channels(const DepthwiseRow& row, int64_t channel)
      : row_(row),
        channel_(channel),
        exist_(whole ? 0 : (uint64_t{1} << (row.channels - channel)) - 1),
        start_(row.start + channel),
        factor_(row.factor + channel),
        lowest_(Bits::all(row.lowest)),
        highest_(Bits::all(row.highest)) {
    const int8_t* const weights = row.weights + channel * depthwise_taps * 4;
    for (int tap = 0; tap < depthwise_taps; ++tap)
      for (int v = 0; v < vectors; ++v) weights_[tap].words[v] = Bits::load(weights + (tap * vectors + v) * 64);
  }

  OCTET_INLINE void compute() {
    for (int tap = 0; tap < depthwise_taps; ++tap) columns_[tap] = load(tap - row_.pad);
    int64_t at = 0;
    while (next<0>(at) && next<stride % depthwise_taps>(at) && next<2 * stride % depthwise_taps>(at)) {
    }
  }

 private:
  // Computes output `at`, whose columns begin with columns_[first], and loads those of the next one.
  template <int first>
  OCTET_INLINE bool next(int64_t& at) {
    if (at == row_.y_columns) return false;
    constexpr int second = (first + 1) % depthwise_taps, third = (first + 2) % depthwise_taps;
    Int codes[vectors];
    for (int v = 0; v < vectors; ++v) {
      Int sum = Bits::load(start_ + 16 * v);
      sum = Bits::multiply_add(sum, columns_[first].words[v], weights_[0].words[v]);
      sum = Bits::multiply_add(sum, columns_[second].words[v], weights_[1].words[v]);
      sum = Bits::multiply_add(sum, columns_[third].words[v], weights_[2].words[v]);
      codes[v] = Bits::scaled(sum, factor_ + 16 * v);
    }
    const Int bytes = Bits::template codes<is_unsigned>(Bits::join(codes[0], codes[1]), Bits::join(codes[2], codes[3]),
                                                        lowest_, highest_);
    uint8_t* const y = static_cast<uint8_t*>(row_.y) + at * row_.channels + channel_;
    whole ? Bits::store(y, bytes) : Bits::store(y, bytes, exist_);
    const int64_t column = at * stride - row_.pad + depthwise_taps;
    columns_[first] = load(column);
    if constexpr (stride == 2) columns_[second] = load(column + 1);
    ++at;
    return true;
  }

  OCTET_INLINE Column load(int64_t column) const {
    if (column < 0 || column >= row_.x_columns) return {};
    const int64_t at = column * row_.channels + channel_;
    Int row[depthwise_taps];
    for (int tap = 0; tap < depthwise_taps; ++tap)
      row[tap] = whole ? Bits::load(row_.x[tap] + at) : Bits::load(row_.x[tap] + at, exist_);
    const Int low = Bits::low_bytes(row[0], row[1]), high = Bits::high_bytes(row[0], row[1]);
    const Int low_rest = Bits::low_bytes(row[2], Int{}), high_rest = Bits::high_bytes(row[2], Int{});
    return {{Bits::low_pairs(low, low_rest), Bits::high_pairs(low, low_rest), Bits::low_pairs(high, high_rest),
             Bits::high_pairs(high, high_rest)}};
  }

  const DepthwiseRow row_;
  const int64_t channel_;  // the first
  const uint64_t exist_;
  const int32_t* const start_;
  const float* const factor_;
  const Int lowest_, highest_;
  Column weights_[depthwise_taps], columns_[depthwise_taps];
};

template <class Bits, int stride, bool is_unsigned>
void compute_rest(const DepthwiseRow& row, int64_t channel) {
  if (row.channels - channel == Bits::channels)
    Channels<Bits, stride, is_unsigned, true>(row, channel).compute();
  else
    Channels<Bits, stride, is_unsigned, false>(row, channel).compute();
}

template <int stride, bool is_unsigned>
void compute_row(const DepthwiseRow& row) {
  int64_t channel = 0;
  for (; channel + depthwise_lanes <= row.channels; channel += depthwise_lanes)
    Channels<Bits512, stride, is_unsigned, true>(row, channel).compute();
  const int64_t rest = row.channels - channel;
  if (rest > Bits256::channels)
    compute_rest<Bits512, stride, is_unsigned>(row, channel);
  else if (rest > Bits128::channels)
    compute_rest<Bits256, stride, is_unsigned>(row, channel);
  else if (rest > 0)
    compute_rest<Bits128, stride, is_unsigned>(row, channel);
}

template <bool is_unsigned>
void compute(const DepthwiseRow& row) {
  row.stride == 1 ? compute_row<1, is_unsigned>(row) : compute_row<2, is_unsigned>(row);
}

}  // namespace

extern const DepthwiseCodes depthwise_codes;
constinit const DepthwiseCodes depthwise_codes = {compute<true>, compute<false>};

}  // namespace octet::cpu::avx512
