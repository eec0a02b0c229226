// A data set of small images in memory that a network reads at another size: random crops in training, whole images in
// evaluation.
#include "kernels/base/error.h"
#include "src/data/augment/crops.h"
#include "src/data/images/pixels.h"

namespace octet {
namespace {

class ResizedPixels final : public PixelDataset {
 public:
  ResizedPixels(Pixels pixels, const Config& config)
      : PixelDataset(std::move(pixels)), crops_(config.data, config.augment, 1) {}

  ImageShape shape() const override { return crops_.shape(); }
  std::string describe() const override {
    return say(pixels_.description, ", resized to ", shape().width, " x ", shape().height);
  }

  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override {
    const int side = int(pixels_.side);
    std::vector<uint8_t> buffer;
    auto* const bytes = const_cast<uint8_t*>(this->image(index, buffer));
    const OpenedImage image{{side, side}, [=](double) { return Raster(side, side, 3, bytes); }};
    crops_.write(index, training, seed, epoch, image, pixels);
    return true;
  }

 private:
  Crops crops_;
};

}  // namespace

std::unique_ptr<Dataset> make_resized(Pixels pixels, const Config& config) {
  return std::make_unique<ResizedPixels>(std::move(pixels), config);
}

}  // namespace octet
