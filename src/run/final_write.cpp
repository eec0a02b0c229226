#include "src/run/final_write.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "src/weights/weights_file.h"

namespace octet {
namespace {

std::vector<std::string> other_places() {
  std::vector<std::string> places;
  for (const char* variable : {"TMPDIR", "HOME"})
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') places.emplace_back(value);
  places.insert(places.end(), {"/tmp", "/dev/shm"});
  return places;
}

}  // namespace

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

void keep_elsewhere(const std::string& run_directory, std::span<const NamedTensor> weights,
                    const std::map<std::string, std::string>& metadata, const FileError& reason) {
  const std::string what = reason.what(), cause = what.substr(0, what.find("\n  fix:"));
  const std::string name = std::filesystem::path(run_directory).filename().string();
  for (const std::string& place : other_places()) {
    const std::string other = say(place, "/octet-", name, "-", getpid(), "-weights.safetensors");
    try {
      write_weights(other, weights, metadata);
    } catch (const FileError&) {
      continue;
    }
    throw FileError(__FILE__, __LINE__, say(cause, "; the trained weights are in ", other),
                    say("make room in ", run_directory,
                        " and resume the run, which writes its weights and its result; "
                        "or use that file"));
  }
  throw FileError(__FILE__, __LINE__, say(cause, "; no other place takes the trained weights either"),
                  "make room and resume the run from its last checkpoint");
}

}  // namespace octet
