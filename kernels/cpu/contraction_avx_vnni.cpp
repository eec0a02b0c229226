// AVX-VNNI, on processors from Alder Lake and Zen 5 on. tests/emulated/avx_vnni.cpp compiles the same text with the
// instruction of AVX-512, for machines that have that one alone.
#define OCTET_TIER avx_vnni
#define OCTET_DOT_BYTES "%{vex%} vpdpbusd"
#include "kernels/cpu/contraction_avx_vnni.inc"
