#define OCTET_TIER scalar
#include "kernels/cpu/passes.inc"
