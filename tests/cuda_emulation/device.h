// What kernels/cuda/device.h defines for a GPU, for the host.
#pragma once
#include "kernels/cuda/runtime.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/cuda_emulation/primitives.h"

#ifdef OCTET_FLUSH_SUBNORMALS
#define OCTET_FLUSHES true
#else
#define OCTET_FLUSHES false
#endif
#define OCTET_LAUNCH(kernel, grid, block, stream, ...)                                             \
  do {                                                                                             \
    ::octet::cuda::begin_launch(stream);                                                           \
    ::octet::emulation::launch(#kernel, grid, block, OCTET_FLUSHES, [=] { kernel(__VA_ARGS__); }); \
    ::octet::cuda::check_launch(#kernel, nullptr, stream);                                         \
  } while (0)
