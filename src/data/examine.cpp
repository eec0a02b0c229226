#include "src/data/examine.h"

#include <atomic>
#include <future>

#include "src/data/decode.h"
#include "src/data/fingerprint.h"
#include "src/data/folder_index.h"
#include "src/data/open_image.h"

namespace octet {
namespace {

ImageFacts facts_of(const std::string& path, int64_t max_pixels) {
  ImageFacts facts;
  try {
    const std::vector<uint8_t> bytes = read_image_file(path, most_bytes(max_pixels));
    facts.hash = fingerprint(0, bytes);
    const ImageHeader header = read_header(bytes, max_pixels);
    facts.width = static_cast<int32_t>(header.width);
    facts.height = static_cast<int32_t>(header.height);
  } catch (const BadImage& bad) {
    facts.fault = bad.what();
  }
  return facts;
}

}  // namespace

std::vector<ImageFacts> examine_images(const std::vector<AnnotatedImage>& images, const Config::Data& data) {
  std::vector<ImageFacts> facts(images.size());
  std::atomic<size_t> next = 0;
  std::vector<std::future<void>> workers;
  for (int64_t worker = 0; worker < data.workers; ++worker)
    workers.push_back(std::async(std::launch::async, [&] {
      for (size_t i; (i = next++) < images.size();) facts[i] = facts_of(images[i].path, data.max_pixels);
    }));
  for (auto& worker : workers) worker.get();
  return facts;
}

}  // namespace octet
