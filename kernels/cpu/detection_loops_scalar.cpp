#define OCTET_TIER scalar
#include "kernels/cpu/detection_loops.inc"
