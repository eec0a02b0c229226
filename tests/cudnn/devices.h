// GPUs as cuDNN describes them to itself, for plans where there is none.
#pragma once
#include <string>
#include <vector>

#include "kernels/base/error.h"

namespace octet::test {

struct DescribedDevice {
  std::string name;
  int version;  // 900: sm_90
  int64_t memory;
  int processors;
  int shared_bytes, reserved_shared_bytes, blocks, threads;  // of one processor
  int kilohertz, memory_kilohertz, l2_bytes;

  std::string json() const {
    return say("{\"cudaDeviceId\":0,\"deviceVer\":", version, ",\"driverVer\":13000,\"totalGlobalMem\":", memory,
               ",\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
               "\"multiProcessorCount\":",
               processors,
               ",\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":", shared_bytes,
               ",\"reservedSharedMemoryPerBlock\":", reserved_shared_bytes,
               ",\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":", blocks,
               ",\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":", threads,
               ",\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":", kilohertz,
               ",\"memClockRateKHz\":", memory_kilohertz, ",\"l2CacheSize\":", l2_bytes, ",\"deviceName\":\"", name,
               "\"}");
  }
};

inline std::vector<DescribedDevice> described_devices() {
  return {{"NVIDIA H200", 900, 150000000000, 132, 232448, 1024, 32, 2048, 1980000, 3201000, 62914560},
          {"NVIDIA A100-SXM4-80GB", 800, 85000000000, 108, 166912, 1024, 32, 2048, 1410000, 1593000, 41943040},
          {"Tesla T4", 750, 15000000000, 40, 65536, 0, 16, 1024, 1590000, 5001000, 4194304}};
}

}  // namespace octet::test
