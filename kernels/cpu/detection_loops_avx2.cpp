#define OCTET_TIER avx2
#include "kernels/cpu/detection_loops.inc"
