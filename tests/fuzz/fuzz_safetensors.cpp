// A file of any bytes is refused with an Error, or every tensor in it can be read to its last byte.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "kernels/base/error.h"
#include "src/weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("input", 0);
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) abort();
  try {
    const auto file = octet::SafetensorsFile::open("/proc/self/fd/" + std::to_string(descriptor));
    for (const std::string& name : file.names())
      if (!file.contains(name)) abort();
    size_t bytes = 0;
    for (const octet::NamedTensor& tensor : file.f32_tensors()) {
      bytes += tensor.values.size_bytes();
      volatile float last = tensor.values.empty() ? 0 : tensor.values.back();
      (void)last;
    }
    if (bytes > size) abort();
    file.require_finite();
  } catch (const octet::Error&) {
  }
  return 0;
}
