#define OCTET_TIER avx512
#include "kernels/cpu/block_loops.inc"
