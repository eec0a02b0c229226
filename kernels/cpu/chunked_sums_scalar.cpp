#define OCTET_TIER scalar
#define OCTET_LANES 4
#include "kernels/cpu/chunked_sums.inc"
