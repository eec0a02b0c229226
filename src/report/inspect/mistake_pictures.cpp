#include "src/report/inspect/mistake_pictures.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "kernels/base/error.h"
#include "src/data/loader.h"
#include "src/report/pictures/picture_address.h"

namespace octet {
namespace {

constexpr int longest_thumbnail_side = 128;  // in pixels

}  // namespace

std::vector<SmallPicture> small_pictures(const Config& config, int64_t images, std::span<const Answer> answers) {
  Config plain = config;
  plain.data.mean = {0, 0, 0}, plain.data.deviation = {1, 1, 1};  // a pixel is then a share of white
  plain.data.bad_images = "skip";                                 // one that cannot be read now is left out
  const Datasets sets = open_datasets(plain, false);
  const Dataset& data = *sets.test;
  const bool same = data.size() == images &&
                    std::ranges::all_of(answers, [&](const Answer& a) { return data.label(a.image) == a.label; });
  REQUIRE_USAGE(same, "give the data of the training", "the images or their labels are others than in the training");
  const auto height = static_cast<int>(data.shape().height), width = static_cast<int>(data.shape().width);
  cv::Mat pixels(height, width, CV_32FC3), bytes;
  std::vector<SmallPicture> pictures;
  for (const Answer& answer : answers) {
    SmallPicture picture{.address = {}, .small = std::max(height, width) < longest_thumbnail_side};
    if (data.read(answer.image, false, 0, 0, pixels.ptr<float>())) {
      pixels.convertTo(bytes, CV_8UC3, 255);
      const double scale = 1.0 * longest_thumbnail_side / std::max(height, width);
      if (scale < 1) cv::resize(bytes, bytes, {}, scale, scale, cv::INTER_AREA);
      picture.address = png_address(bytes);
    }
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

}  // namespace octet
