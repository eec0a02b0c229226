#define OCTET_TIER avx512
#include "kernels/cpu/passes.inc"
