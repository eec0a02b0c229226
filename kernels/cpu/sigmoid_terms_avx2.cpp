#define OCTET_TIER avx2
#include "kernels/cpu/sigmoid_terms.inc"
