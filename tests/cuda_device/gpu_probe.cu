// What a GPU can do that octet does not use yet: whether its bf16 tensor cores sum products of 8-bit codes exactly, in
// runs of 512 (512 * 255 * 127 < 2^24, so every partial sum is a float), and how many bytes a second copies move.
// Chips whose int8 rate was cut would multiply codes so. Exit code 1: some sum is not exact.
#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr int side = 16, run = 512;

// to (16 x 16) = a (16 x 512) times the transpose of b (16 x 512), by one warp.
__global__ void multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* to) {
#if __CUDA_ARCH__ >= 800
  using namespace nvcuda;
  wmma::fragment<wmma::accumulator, side, side, side, float> sums;
  wmma::fill_fragment(sums, 0.0f);
  for (int k = 0; k < run; k += side) {
    wmma::fragment<wmma::matrix_a, side, side, side, __nv_bfloat16, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, side, side, side, __nv_bfloat16, wmma::col_major> of_b;
    wmma::load_matrix_sync(of_a, a + k, run);
    wmma::load_matrix_sync(of_b, b + k, run);
    wmma::mma_sync(sums, of_a, of_b, sums);
  }
  wmma::store_matrix_sync(to, sums, side, wmma::mem_row_major);
#endif
}

// How many of 16 x 16 sums differ from those of integers. extreme: all codes are 255 and 127 or -127.
int wrong_sums(std::mt19937& random, bool extreme) {
  __nv_bfloat16 *a = nullptr, *b = nullptr;
  float* to = nullptr;
  if (cudaMallocManaged(&a, side * run * sizeof *a) != cudaSuccess ||
      cudaMallocManaged(&b, side * run * sizeof *b) != cudaSuccess ||
      cudaMallocManaged(&to, side * side * sizeof *to) != cudaSuccess)
    return side * side;
  std::vector<int> x(side * run), w(side * run);
  for (int i = 0; i < side * run; ++i) {
    x[i] = extreme ? 255 : static_cast<int>(random() % 256);
    w[i] = extreme ? (i / run % 2 == 0 ? 127 : -127) : static_cast<int>(random() % 255) - 127;
    a[i] = __float2bfloat16(static_cast<float>(x[i])), b[i] = __float2bfloat16(static_cast<float>(w[i]));
  }
  multiply<<<1, 32>>>(a, b, to);
  int wrong = cudaDeviceSynchronize() == cudaSuccess ? 0 : side * side;
  for (int i = 0; i < side && wrong < side * side; ++i)
    for (int j = 0; j < side; ++j) {
      int64_t sum = 0;
      for (int k = 0; k < run; ++k) sum += x[i * run + k] * w[j * run + k];
      wrong += to[i * side + j] != static_cast<float>(sum) ? 1 : 0;
    }
  cudaFree(a), cudaFree(b), cudaFree(to);
  return wrong;
}

double copied_terabytes() {  // a second, read and written
  constexpr size_t bytes = size_t{1} << 30;
  constexpr int rounds = 20;
  void *from = nullptr, *to = nullptr;
  if (cudaMalloc(&from, bytes) != cudaSuccess || cudaMalloc(&to, bytes) != cudaSuccess) return 0;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
  cudaEventRecord(begin);
  for (int i = 0; i < rounds; ++i) cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice);
  cudaEventRecord(end), cudaEventSynchronize(end);
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  return 2.0 * rounds * static_cast<double>(bytes) / (static_cast<double>(ms) * 1e-3) / 1e12;
}

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::fprintf(stderr, "gpu_probe: no GPU is here\n");
    return 2;
  }
  std::mt19937 random(1);
  int wrong = wrong_sums(random, true);
  for (int i = 0; i < 20; ++i) wrong += wrong_sums(random, false);
  std::printf("{\"bf16_sums_of_codes\": 5376, \"wrong\": %d, \"copy_terabytes_per_second\": %.3f}\n", wrong,
              copied_terabytes());
  return wrong == 0 ? 0 : 1;
}
