// What kernels/cuda/device.h defines for a GPU, for the host.
#pragma once
#include <tuple>

#include "kernels/cuda/runtime.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/cuda_emulation/primitives.h"

#ifdef OCTET_FLUSH_SUBNORMALS
#define OCTET_FLUSHES true
#else
#define OCTET_FLUSHES false
#endif
// Arguments are evaluated at the launch, as CUDA does, not when a recorded program is played.
#define OCTET_LAUNCH(kernel, grid, block, stream, ...)                                                \
  do {                                                                                                \
    ::octet::cuda::begin_launch(stream);                                                              \
    ::octet::emulation::launch(#kernel, grid, block, OCTET_FLUSHES, [all = std::tuple(__VA_ARGS__)] { \
      std::apply([](const auto&... arguments) { kernel(arguments...); }, all);                        \
    });                                                                                               \
    ::octet::cuda::check_launch(#kernel, nullptr, stream);                                            \
  } while (0)
