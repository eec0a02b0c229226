#include "src/library/messages.h"

#include <spdlog/spdlog.h>

#include <mutex>

#include "src/config/log.h"

namespace octet::library {

void show_warnings() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!spdlog::default_logger() || !spdlog::default_logger()->name().empty()) return;  // spdlog's own has no name
    setup_log(0);
    spdlog::default_logger()->set_level(spdlog::level::warn);
  });
}

}  // namespace octet::library
