#define OCTET_TIER avx512
#include "kernels/cpu/sigmoid_terms.inc"
