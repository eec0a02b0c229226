#include "src/run/rank_history.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace octet {
namespace {

// The number of ranks at the end of a history; 0 if it is empty.
int last_ranks(const std::string& history) {
  const size_t comma = history.rfind(", ");
  return std::atoi(history.c_str() + (comma == std::string::npos ? 0 : comma + 2));
}

}  // namespace

void continue_on_ranks(std::string& history, int ranks, int64_t step, bool exact) {
  const int before = last_ranks(history);
  if (history.empty() || before == ranks) return;
  history += fmt::format(", {} from step {}", ranks, step);
  if (!exact)
    spdlog::warn(
        "the run goes on with {} ranks after {}: its weights will be others than those of an unchanged run; "
        "comm.exchange: exact would keep them",
        ranks, before);
}

}  // namespace octet
