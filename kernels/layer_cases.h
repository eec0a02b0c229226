// Convolutions of networks that octet trains: `octet bench kernels` times them with a full batch, tests run them with a
// small one.
#pragma once
#include "kernels/operations.h"

namespace octet {

struct LayerCase {
  const char* name;  // network/inputs x outputs @ input size; "dw" is depthwise, "s2" a stride of 2
  int64_t batch, size, in, out;
  int kernel, stride = 1;
  int groups = 1;
  ConvProblem problem(int64_t images) const {
    ConvProblem p;
    const int64_t to = output_extent(size, kernel, stride, kernel / 2);
    p.x = {images, size, size, in}, p.y = {images, to, to, out};
    p.kernel_h = p.kernel_w = kernel, p.stride_h = p.stride_w = stride, p.pad_h = p.pad_w = kernel / 2;
    p.groups = groups;
    return p;
  }
};
inline constexpr LayerCase layer_cases[] = {
    {"resnet20/3x16@32", 128, 32, 3, 16, 3},
    {"resnet20/16x16@32", 128, 32, 16, 16, 3},
    {"resnet20/16x32@32s2", 128, 32, 16, 32, 3, 2},
    {"resnet20/32x32@16", 128, 16, 32, 32, 3},
    {"resnet20/32x64@16s2", 128, 16, 32, 64, 3, 2},
    {"resnet20/64x64@8", 128, 8, 64, 64, 3},
    {"resnet20/64x10@1", 128, 1, 64, 10, 1},
    {"resnet50/3x64@224s2", 16, 224, 3, 64, 7, 2},
    {"resnet50/64x64@56", 16, 56, 64, 64, 3},
    {"resnet50/64x256@56", 16, 56, 64, 256, 1},
    {"resnet50/256x64@56", 16, 56, 256, 64, 1},
    {"resnet50/128x128@56s2", 16, 56, 128, 128, 3, 2},
    {"resnet50/256x512@56s2", 16, 56, 256, 512, 1, 2},
    {"resnet50/128x128@28", 16, 28, 128, 128, 3},
    {"resnet50/128x512@28", 16, 28, 128, 512, 1},
    {"resnet50/512x128@28", 16, 28, 512, 128, 1},
    {"resnet50/256x256@14", 16, 14, 256, 256, 3},
    {"resnet50/256x1024@14", 16, 14, 256, 1024, 1},
    {"resnet50/1024x256@14", 16, 14, 1024, 256, 1},
    {"resnet50/512x512@7", 16, 7, 512, 512, 3},
    {"resnet50/512x2048@7", 16, 7, 512, 2048, 1},
    {"resnet50/2048x512@7", 16, 7, 2048, 512, 1},
    {"resnet50/2048x1000@1", 16, 1, 2048, 1000, 1},
    {"mobilenet_v2/32x16@32", 128, 32, 32, 16, 1},
    {"mobilenet_v2/16x96@32", 128, 32, 16, 96, 1},
    {"mobilenet_v2/dw96@32", 128, 32, 96, 96, 3, 1, 96},
    {"mobilenet_v2/24x144@32", 128, 32, 24, 144, 1},
    {"mobilenet_v2/144x24@32", 128, 32, 144, 24, 1},
    {"mobilenet_v2/dw144@32", 128, 32, 144, 144, 3, 1, 144},
    {"mobilenet_v2/dw144@32s2", 128, 32, 144, 144, 3, 2, 144},
    {"mobilenet_v2/192x32@16", 128, 16, 192, 32, 1},
    {"mobilenet_v2/dw192@16", 128, 16, 192, 192, 3, 1, 192},
    {"mobilenet_v2/64x384@8", 128, 8, 64, 384, 1},
    {"mobilenet_v2/dw384@8", 128, 8, 384, 384, 3, 1, 384},
    {"mobilenet_v2/960x160@4", 128, 4, 960, 160, 1},
    {"mobilenet_v2/320x1280@4", 128, 4, 320, 1280, 1},
    {"efficientnet_lite0/dw672@14", 16, 14, 672, 672, 5, 1, 672},
};

}  // namespace octet
