// The AVX-VNNI tier's text with AVX-512's encoding of its instruction, so that machines without AVX-VNNI can test it.
#define OCTET_TIER avx_vnni_emulated
#define OCTET_DOT_BYTES "vpdpbusd"
#include "kernels/cpu/contraction_avx_vnni.inc"
