#include "kernels/loop_log.h"

#include <algorithm>

namespace octet {

void LoopLog::start(Mode mode) {
  mode_ = mode;
  loops_.clear(), seconds_.clear();
  named_ = Clock::now();
}

void LoopLog::name(const std::string& of) {
  const auto now = Clock::now();
  seconds_[name_] += std::chrono::duration<double>(now - named_).count();
  named_ = now, name_ = of;
}

void LoopLog::add(const std::vector<std::vector<Turn>>& by_thread) {
  for (size_t i = 0; i < by_thread.front().size(); ++i) {
    double busy = 0, longest = 0;
    for (const std::vector<Turn>& turns : by_thread) {
      busy += turns[i].seconds;
      longest = std::max(longest, turns[i].seconds);
    }
    Loop& loop = loops_[{name_, by_thread.front()[i].pieces}];
    ++loop.calls;
    loop.busy += busy;
    loop.longest += longest;
    loop.waiting += double(by_thread.size()) * longest - busy;
  }
}

}  // namespace octet
