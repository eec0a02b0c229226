#define OCTET_TIER avx512
#include "kernels/cpu/detection_loops.inc"
