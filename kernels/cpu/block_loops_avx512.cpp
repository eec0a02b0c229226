#define OCTET_TIER avx512
#define OCTET_LANES 16
#include "kernels/cpu/block_loops.inc"
