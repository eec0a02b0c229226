#define OCTET_TIER avx2
#include "kernels/cpu/block_loops.inc"
