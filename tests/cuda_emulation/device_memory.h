// Who may touch the emulated device's memory; see runtime.cpp.
#pragma once

namespace octet::cuda {

void protect_device_memory(bool);
// Kernels and copies may, while this lives.
struct OpenDeviceMemory {
  OpenDeviceMemory();
  ~OpenDeviceMemory();
  OpenDeviceMemory(const OpenDeviceMemory&) = delete;
  OpenDeviceMemory& operator=(const OpenDeviceMemory&) = delete;
};

}  // namespace octet::cuda
