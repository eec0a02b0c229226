// Keeps the log to errors, for work whose warnings come again: `const Quiet quiet;`.
#pragma once
#include <spdlog/spdlog.h>

namespace octet {

class Quiet {
 public:
  Quiet() { spdlog::set_level(spdlog::level::err); }
  ~Quiet() { spdlog::set_level(before_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  const spdlog::level::level_enum before_ = spdlog::get_level();
};

template <class Work>
auto quietly(const Work& work) {
  const Quiet quiet;
  return work();
}

}  // namespace octet
