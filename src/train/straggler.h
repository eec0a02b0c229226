// Finds a rank that holds the others up because it is slow, not because it hangs.
#pragma once
#include <map>
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

// Names a straggler once, when it has been one by its means over a minute. A rank may be slow now and then only, and
// hold the others up as much as one that is always slow.
class StragglerWatch {
 public:
  // now: seconds of any steady clock. Returns the sentence with the means, or nothing.
  std::optional<std::string> look(double now, const std::vector<Heartbeat>&);

 private:
  struct Sum {
    Heartbeat of;  // with the sums of the parts
    int looks = 0;
  };
  std::vector<Heartbeat> means() const;

  std::map<int, Sum> sums_;  // of this minute, by rank
  double since_ = 0;         // when it began
  std::vector<int> named_;
};

}  // namespace octet
