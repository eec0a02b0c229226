#define OCTET_TIER avx2
#include "kernels/cpu/chunked_sums.inc"
