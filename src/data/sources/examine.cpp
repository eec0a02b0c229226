#include "src/data/sources/examine.h"

#include "src/data/fingerprint.h"
#include "src/data/images/image_files.h"
#include "src/data/images/image_format.h"
#include "src/data/images/open_image.h"
#include "src/data/on_threads.h"

namespace octet {
namespace {

ImageFacts facts_of(const std::string& path, int64_t max_pixels) {
  ImageFacts facts;
  try {
    const std::vector<uint8_t> bytes = read_image_file(path, most_bytes(max_pixels));
    facts.hash = fingerprint(0, bytes);
    const ImageHeader header = read_header(bytes, max_pixels);
    facts.format = header.format->name;
    facts.misnamed = header.format != format_named(path);
    facts.header = header;
    decode(bytes, header, 1, &facts.warnings);
  } catch (const BadImage& bad) {
    facts.fault = bad.what();
    facts.kind = bad.fault;
  }
  return facts;
}

}  // namespace

std::vector<ImageFacts> examine_images(const std::vector<std::string>& paths, const Config::Data& data) {
  std::vector<ImageFacts> facts(paths.size());
  on_threads(data.workers, paths.size(), [&](size_t i) { facts[i] = facts_of(paths[i], data.max_pixels); });
  return facts;
}

}  // namespace octet
