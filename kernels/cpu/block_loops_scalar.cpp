#define OCTET_TIER scalar
#include "kernels/cpu/block_loops.inc"
