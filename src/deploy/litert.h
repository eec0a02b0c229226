// Integer networks as LiteRT files (.tflite). docs/integer-network.md says what such a file computes.
#pragma once
#include <string>

#include "src/deploy/network.h"

namespace octet {

// Input `images`: N x H x W x 3 uint8, red, green and blue; N is 1 unless a program says otherwise. Output `logits`:
// N x classes float32. The sums of the network must be separate. UsageError: an operation has no form in LiteRT; the
// message names it.
std::string write_litert(const NetworkFile&);

// What write_litert() has written. UsageError: another program wrote it, or it is damaged. path: for messages.
NetworkFile read_litert(const std::string& content, const std::string& path);

}  // namespace octet
