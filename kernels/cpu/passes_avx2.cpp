#define OCTET_TIER avx2
#include "kernels/cpu/passes.inc"
