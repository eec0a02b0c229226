#define OCTET_TIER scalar
#include "kernels/cpu/chunked_sums.inc"
