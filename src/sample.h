// A sample is pixels and targets; a task says which targets it has.
#pragma once
#include <cstdint>

namespace octet {

// What losses compare the network's answers with, for the samples of this rank's batch; in the host's memory.
struct Targets {
  const int32_t* labels = nullptr;  // (samples) the class of each; -1: counts in no loss
};

}  // namespace octet
