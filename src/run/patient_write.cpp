#include "src/run/patient_write.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "kernels/base/durable_file.h"

namespace octet {

void write_patiently(const std::function<void()>& write, double patience, const std::function<bool()>& gives_up,
                     Heart& heart) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(patience);
  for (bool told = false;; told = true) {
    heart.enter(activity::saving);
    try {
      write();
      if (told) spdlog::info("written");
      return;
    } catch (const FileError& error) {
      if (Clock::now() >= end || gives_up()) throw;
      if (!told) spdlog::warn("trying again for {:.0f} s: {}", patience, error.what());
    }
    heart.enter(activity::awaiting_space);
    const auto next = Clock::now() + std::chrono::seconds(1);
    while (Clock::now() < std::min<decltype(end)>(next, end) && !gives_up())
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace octet
