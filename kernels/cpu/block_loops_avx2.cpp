#define OCTET_TIER avx2
#define OCTET_LANES 8
#include "kernels/cpu/block_loops.inc"
