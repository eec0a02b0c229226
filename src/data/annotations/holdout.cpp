// Which images data.holdout keeps for evaluation, where the files name no set for it.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "kernels/base/error.h"
#include "src/data/annotations/annotation_files.h"
#include "src/data/fingerprint.h"
#include "src/data/on_threads.h"

namespace octet {
namespace {

// Of the bytes of the file, so that copies of an image are on the same side; of the name where it cannot be read.
// Roboflow writes several variants of an image, "NAME.rf.DIGITS.jpg": they belong together, too.
uint64_t hash_of(const AnnotatedImage& image) {
  if (const size_t mark = image.name.find(".rf."); mark != std::string::npos)
    return fingerprint(0, image.name.substr(0, mark));
  std::ifstream stream(image.path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  return bytes.empty() ? fingerprint(0, image.name) : fingerprint(0, bytes);
}

}  // namespace

void keep_side(const Config::Data& data, Split split, Annotations& all) {
  std::vector<uint64_t> hashes(all.images.size());
  on_threads(data.workers, hashes.size(), [&](size_t i) { hashes[i] = hash_of(all.images[i]); });
  const std::set<uint64_t> different(hashes.begin(), hashes.end());
  REQUIRE_USAGE(different.size() > 1, "give more images, or a set of its own for evaluation", data.root,
                ": data.holdout cannot divide ", all.images.size(), " images, of which ", different.size(),
                different.size() == 1 ? " is" : " are", " different");
  const auto count = std::clamp<size_t>(size_t(data.holdout * double(different.size()) + 0.5), 1, different.size() - 1);
  const uint64_t first_of_training = *std::next(different.begin(), ptrdiff_t(count));
  size_t at = 0;
  std::erase_if(all.images,
                [&](const AnnotatedImage&) { return (hashes[at++] < first_of_training) != (split == Split::test); });
}

}  // namespace octet
