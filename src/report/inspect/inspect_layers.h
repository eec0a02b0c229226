// What a run recorded of each quantized layer: clips, learning rate scales, and its gradient's distribution.
#pragma once
#include <string>

#include "src/report/records.h"

namespace octet {

// Empty for a run without such records.
std::string layer_sections(const RunRecords&);

}  // namespace octet
