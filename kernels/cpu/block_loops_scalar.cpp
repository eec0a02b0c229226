#define OCTET_TIER scalar
#define OCTET_LANES 4
#include "kernels/cpu/block_loops.inc"
