// RandAugment (Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2020),
// with the operations and strengths of torchvision.transforms.RandAugment.
#pragma once
#include <string>
#include <vector>

#include "src/data/draws.h"
#include "src/data/images/picture.h"

namespace octet {

// Applies `operations` random operations. magnitude: 0 .. 30.
void randaugment(Draws&, int64_t operations, int64_t magnitude, const Picture&);

// One operation, in place. negative: the other direction, where there are two.
void apply_operation(const std::string& name, int64_t magnitude, bool negative, const Picture&);
std::vector<std::string> operation_names();

}  // namespace octet
