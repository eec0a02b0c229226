// Sums of products in the direct convolution kernels. For .cu files.
#pragma once
#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {

// From and Element are one type, except for unsigned codes of activations.
template <class Sum, class From, class Element>
__device__ __forceinline__ Sum product(From x, Element w) {
  return static_cast<Sum>(x) * static_cast<Sum>(w);
}

// The sums of one thread; those of real values are cut as shared/sums.h defines.
template <class Sum, int count>
struct CutSums {
  Sum part[count] = {}, folded[count] = {};
  int in_run = 0, since = 0;
  __device__ __forceinline__ void begin_run() { in_run = 0; }
  // How many of the next `products` may be added before next(that many) is called.
  __device__ __forceinline__ int before_cut(int products) const {
    if constexpr (!std::is_same_v<Sum, float>) return products;
    const int left = static_cast<int>(fold_products) - in_run % static_cast<int>(fold_products);
    return left < products ? left : products;
  }
  __device__ __forceinline__ void next(int products) {
    if constexpr (std::is_same_v<Sum, float>) {
      since += products;
      in_run += products;
      if (in_run % fold_products == 0) fold();
    }
  }
  __device__ __forceinline__ void end_run() {
    if (since >= fold_products) fold();
  }
  __device__ __forceinline__ Sum operator[](int i) const { return folded[i] + part[i]; }

 private:
  __device__ __forceinline__ void fold() {
#pragma unroll
    for (int i = 0; i < count; ++i) folded[i] += part[i], part[i] = 0;
    since = 0;
  }
};

}  // namespace octet::cuda
