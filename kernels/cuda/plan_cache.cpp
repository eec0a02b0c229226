#include "kernels/cuda/plan_cache.h"

#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "kernels/base/error.h"

namespace octet::cuda {
namespace {

std::string digest(const std::string& text) { return say(std::hex, XXH3_64bits(text.data(), text.size())); }

}  // namespace

PlanCache::PlanCache(std::filesystem::path folder, std::string made_for)
    : folder_(std::move(folder)), made_for_(std::move(made_for)) {}

// The text before the plan. It differs for another version, device, problem or content.
std::string PlanCache::head(const std::string& problem, const std::string& plan) const {
  return say("octet plan 1\n", made_for_, '\n', problem, '\n', plan.size(), ' ', digest(plan), '\n');
}
std::filesystem::path PlanCache::file(const std::string& problem) const {
  return folder_ / (digest(made_for_ + '\n' + problem) + ".plan");
}

std::optional<std::string> PlanCache::find(const std::string& problem) const {
  if (folder_.empty()) return {};
  std::ifstream in(file(problem), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  size_t begin = 0;
  for (int line = 0; line < 4; ++line) {
    begin = text.find('\n', begin) + 1;
    if (begin == 0) return {};
  }
  const std::string plan = text.substr(begin);
  if (text.compare(0, begin, head(problem, plan)) != 0) return {};
  return plan;
}

void PlanCache::keep(const std::string& problem, const std::string& plan) const {
  if (folder_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  const std::filesystem::path to = file(problem);
  // Named after this process, so that ranks that write the same plan use different files.
  const std::filesystem::path temporary = to.string() + say('.', getpid());
  std::ofstream out(temporary, std::ios::binary);
  out << head(problem, plan) << plan;
  out.close();
  if (out) std::filesystem::rename(temporary, to, failed);
  if (!out || failed) std::filesystem::remove(temporary, failed);
}

std::filesystem::path PlanCache::default_folder() {
  const char *const cache = std::getenv("XDG_CACHE_HOME"), *const home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "octet";
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "octet";
  return {};
}

}  // namespace octet::cuda
