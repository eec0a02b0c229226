// A CIFAR-10 file of any bytes is read to valid labels or refused with an Error.
#include <cstdlib>

#include "kernels/base/error.h"
#include "src/data/images/pixels.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  octet::Pixels pixels;
  try {
    octet::parse_cifar10({data + 1, size - 1}, "input", data[0] % 4, pixels);
  } catch (const octet::Error&) {
    return 0;
  }
  if (pixels.images.size() != pixels.labels.size() * 3072) abort();
  for (const uint8_t label : pixels.labels)
    if (label >= 10) abort();
  const int64_t count = pixels.count();
  const auto dataset = octet::make_dataset(std::move(pixels));
  std::vector<uint8_t> image(4096);
  for (int64_t i = 0; i < count; ++i)
    if (!dataset->read(i, true, 1, i, image.data())) abort();
  return 0;
}
