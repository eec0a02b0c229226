// Views of a photograph as a network reads them: random or middle crops of one size, normalized.
#pragma once
#include <opencv2/core.hpp>

#include "src/data/draws.h"
#include "src/data/normalization.h"

namespace octet {

// A rectangle of the full image: a share of 8 % to 100 % of its area, of ratio 3/4 to 4/3, anywhere in it. Ten tries,
// then the largest middle part of a ratio in that range. As torchvision.transforms.RandomResizedCrop.
cv::Rect random_crop(Draws& draws, int64_t width, int64_t height);
// The middle square of 224/256 of the shorter side: what is left when the shorter side is resized to 256 and the middle
// 224 x 224 are cut out.
cv::Rect middle_crop(int64_t width, int64_t height);
// The part of `image` that shows rectangle `crop` of the full image, which is width x height; resized to side x side.
// `image` may be a smaller decoding of it.
cv::Mat resized_crop(const cv::Mat& image, int64_t width, int64_t height, const cv::Rect& crop, int side);
// RGB bytes -> f32; flip: mirrored.
void normalize(const cv::Mat& image, const Normalization& normalization, bool flip, float* pixels);

}  // namespace octet
