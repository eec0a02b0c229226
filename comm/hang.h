// Decides from heartbeats whether a job hangs, and which rank holds it up.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "comm/heart.h"

namespace octet {

struct Hang {
  std::optional<int> rank;  // that holds the others up; empty: it cannot be told
  std::string reason;       // a sentence that names rank, host, process, step and activity
  double seconds = 0;       // so long
};

// "1 3"; of many the first ones and the number of the others.
std::string few_of(const std::vector<int>& ranks);

// limit: seconds that an activity may take, times its own Activity::limits. own: this rank; others: those that it sees
// of `ranks` in all. A rank that only waits is no cause: it waits for one that works too long, whose process gives no
// sign of life, or that is behind.
std::optional<Hang> find_hang(const Sighting& own, const std::vector<Sighting>& others, int ranks, double limit);

// Whether this rank is the one that speaks: no rank before it can, that is seen and not held responsible.
bool speaks_first(const Sighting& own, const std::vector<Sighting>& others, const Hang&);

}  // namespace octet
