#define OCTET_TIER avx512
#include "kernels/cpu/chunked_sums.inc"
