// Finds a rank that holds the others up because it is slow, not because it hangs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "comm/heart.h"

namespace octet {

// The rank whose own part of a step, outside of collectives, takes more than twice the median of the other ranks.
struct Straggler {
  int rank = 0;
  double factor = 0;     // times the median
  std::string sentence;  // with host, figures and what takes most of the time
};
std::optional<Straggler> slowest(const std::vector<Heartbeat>&);

// Names a straggler once, when it has been one for a minute.
class StragglerWatch {
 public:
  // now: seconds of any steady clock. Returns the sentence, or nothing.
  std::optional<std::string> look(double now, const std::vector<Heartbeat>&);

 private:
  int rank_ = -1;
  double since_ = 0;
  std::vector<int> named_;
};

}  // namespace octet
