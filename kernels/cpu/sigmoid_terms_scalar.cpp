#define OCTET_TIER scalar
#include "kernels/cpu/sigmoid_terms.inc"
