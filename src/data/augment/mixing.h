// Training samples that are mixed of two images, whose losses are mixed by the same shares: mixup and CutMix. All draws
// are functions of (seed, epoch, index).
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace octet {

// Mixup (Zhang et al., "mixup: Beyond empirical risk minimization", ICLR 2018): an image becomes share x image + (1 -
// share) x another image. Each image has a share of its own, from the distribution Beta(alpha, alpha). alpha: above 0.
float mixup_share(uint64_t seed, int64_t epoch, int64_t index, double alpha);
void mix_pixels(float* pixels, std::span<const float> others, float share);

// CutMix (Yun et al., "CutMix: Regularization strategy to train strong classifiers with localizable features", ICCV
// 2019): a rectangle of another image replaces the pixels there. In pixels; right and bottom are outside of it.
struct Cut {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
};
// The rectangle of torchvision.transforms.v2.CutMix: with 1 - share of the area and the proportions of the image,
// around (x, y); what is outside of the image is cut off.
Cut cut_around(int64_t x, int64_t y, double share, int64_t height, int64_t width);
// The rectangle of a sample, whose share comes from Beta(cutmix, cutmix) and whose center may be any pixel. Null: the
// sample is none of CutMix. With cutmix and mixup above 0 each sample draws one of the two, as timm's switch_prob 0.5.
std::optional<Cut> drawn_cut(uint64_t seed, int64_t epoch, int64_t index, double mixup, double cutmix, int64_t height,
                             int64_t width);
// Takes the pixels of the rectangle from another image; both are (height, width, 4) bytes. Returns the share of the
// pixels that stayed.
float cut_pixels(uint8_t* pixels, const uint8_t* others, const Cut&, int64_t height, int64_t width);

}  // namespace octet
