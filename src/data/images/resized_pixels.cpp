// A data set of small images in memory that a network reads at another size: random crops in training, whole images in
// evaluation.
#include "kernels/base/error.h"
#include "src/data/augment/crops.h"
#include "src/data/fingerprint.h"
#include "src/data/images/pixels.h"

namespace octet {
namespace {

class ResizedPixels : public Dataset {
 public:
  ResizedPixels(Pixels pixels, const Config& config)
      : pixels_(std::move(pixels)), crops_(config.data, config.augment, pixels_.normalization, 1) {}

  int64_t size() const override { return pixels_.count(); }
  int64_t classes() const override { return static_cast<int64_t>(pixels_.classes.size()); }
  std::vector<std::string> class_names() const override { return pixels_.classes; }
  ImageShape shape() const override { return crops_.shape(); }
  std::string describe() const override {
    return say(pixels_.description, ", resized to ", shape().width, " x ", shape().height);
  }
  int32_t label(int64_t index) const override { return pixels_.labels[size_t(index)]; }
  uint64_t fingerprint() const override {
    return octet::fingerprint(octet::fingerprint(0, pixels_.labels), pixels_.images);
  }

  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, float* pixels) const override {
    const int side = int(pixels_.side);
    auto* const bytes = const_cast<uint8_t*>(pixels_.images.data()) + index * pixels_.side * pixels_.side * 3;
    const OpenedImage image{{side, side}, [=](double) { return cv::Mat(side, side, CV_8UC3, bytes); }};
    crops_.write(index, training, seed, epoch, image, pixels);
    return true;
  }

 private:
  Pixels pixels_;
  Crops crops_;
};

}  // namespace

std::unique_ptr<Dataset> make_resized(Pixels pixels, const Config& config) {
  return std::make_unique<ResizedPixels>(std::move(pixels), config);
}

}  // namespace octet
