// The normalizations of the data sources.
#pragma once
#include "src/config/config.h"
#include "src/normalization.h"

namespace octet {

constexpr Normalization of_cifar10 = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
constexpr Normalization of_drawings = {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}};

// data.mean and data.deviation; those of the data source, `own`, where the configuration has none.
Normalization normalization(const Config::Data&, Normalization own);

}  // namespace octet
