// train.memory_mb: what a rank computes at once, and what trains, so that it fits.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "src/data/augment/canvases.h"
#include "src/models/detectors.h"
#include "src/tasks/task.h"
#include "src/train/rank.h"
#include "src/train/settle.h"

namespace octet {
namespace {

constexpr int64_t least_part = 8;  // images: norms of fewer say little

// The same training with more and more of the first stages frozen, from the recipe's own.
std::vector<Config> by_frozen_stages(const Config& config) {
  std::vector<Config> all = {config};
  const bool from_weights = !config.model.initial_weights.empty() || !config.model.initial_backbone.empty();
  if (!from_weights) return all;
  if (is_detector(config.model.name)) {
    for (int64_t frozen = config.model.freeze_stages + 1; frozen <= 5; ++frozen)
      all.push_back(config), all.back().model.freeze_stages = frozen;
    return all;
  }
  Config open = config;
  open.train.freeze.clear();
  const ImageShape shape = input_shapes(config.data).front();
  const auto policy = make_policy(open);
  const std::vector<std::string> stages =
      task_of(open).network(open, *policy, shape.height, shape.width, true).stages();
  const std::string& own = config.train.freeze;
  const auto frozen = std::find_if(stages.rbegin(), stages.rend(), [&](const std::string& stage) {
    return stage == own || stage.starts_with(own + ".");
  });
  const auto first = own.empty() ? stages.begin() : frozen.base();
  for (auto stage = first; stage != stages.end() && stage + 1 != stages.end(); ++stage)
    all.push_back(config), all.back().train.freeze = *stage;
  return all;
}

// The numbers of parts of a rank's batch, from the recipe's own to parts of 8 images. Simulated policies have no parts.
std::vector<int64_t> numbers_of_parts(const Config& config, int64_t ranks) {
  if (make_policy(config)->simulation()) return {config.train.accumulate};
  const int64_t images = config.data.batch / ranks, unit = std::max<int64_t>(config.train.norm_group, 1);
  std::vector<int64_t> all;
  for (int64_t parts = config.train.accumulate; parts <= images; ++parts) {
    const bool divides = images % parts == 0 && images / parts % unit == 0;
    if (divides && (images / parts >= least_part || all.empty())) all.push_back(parts);
  }
  return all;
}

// With the recipe's storage, and with codes of 8 bits where the policy has them.
std::vector<Config> by_storage(const Config& config) {
  std::vector<Config> all = {config};
  Config small = config;
  small.storage = "int8";
  if (storage_of(small) == DType::s8 && storage_of(config) != DType::s8) all.push_back(small);
  return all;
}

std::string what_is_chosen(const Config& given, const Config& chosen, int64_t ranks) {
  std::vector<std::string> words;
  if (chosen.storage != given.storage) words.push_back("storage: " + chosen.storage);
  if (chosen.train.accumulate != given.train.accumulate)
    words.push_back(fmt::format("train.accumulate: {} ({} images at once)", chosen.train.accumulate,
                                chosen.data.batch / ranks / chosen.train.accumulate));
  if (chosen.train.freeze != given.train.freeze) words.push_back("train.freeze: " + chosen.train.freeze);
  if (chosen.model.freeze_stages != given.model.freeze_stages)
    words.push_back(fmt::format("model.freeze_stages: {}", chosen.model.freeze_stages));
  return words.empty() ? "the recipe as it is" : joined(words, ", ");
}

// Another process may begin with a little more memory than this one.
std::string enough_for(const MemoryNeed& need) {
  return fmt::format("set train.memory_mb to {} or more", (need.total() * 21 / 20 + 999'999) / 1'000'000);
}

struct Found {
  Config config;
  MemoryNeed need;
};

// The first that fits, or the smallest.
Found fitting(const Config& given, int64_t ranks, const HostMemory& host) {
  const int64_t limit = given.train.memory_mb * 1'000'000;
  std::optional<Found> smallest;
  const auto fits = [&](const Config& config) {
    Found found{config, memory_needed(config, ranks, host)};
    const bool does = found.need.total() <= limit;
    if (!smallest || does || found.need.total() < smallest->need.total()) smallest = std::move(found);
    return does;
  };
  const std::vector<int64_t> parts = numbers_of_parts(given, ranks);
  const auto divided = [](Config config, int64_t count) {
    config.train.accumulate = count;
    return config;
  };
  for (const Config& frozen : by_frozen_stages(given)) {
    // The least is one of the ends: few images at once, or none of the gradients that parts add up.
    std::vector<Config> ends = by_storage(divided(frozen, parts.back()));
    if (parts.size() > 1) std::ranges::copy(by_storage(divided(frozen, parts.front())), std::back_inserter(ends));
    if (std::ranges::none_of(ends, fits)) continue;
    for (const int64_t count : parts)
      for (const Config& config : by_storage(divided(frozen, count)))
        if (fits(config)) return std::move(*smallest);
  }
  return std::move(*smallest);
}

Config with_classes(Config config, const HostMemory& host) {
  if (config.model.classes > 0) return config;
  // Without data this says what is wrong with them.
  config.model.classes = host.absent.empty() ? host.classes : open_datasets(config).train->classes();
  return config;
}

// Collective. What with_memory() chooses, as rank 0's configuration has it.
Config with_choice_of_rank_0(const Config& given, const Config& of_rank_0, Transport& transport) {
  std::string text = say(of_rank_0.storage, '\n', of_rank_0.train.accumulate, '\n', of_rank_0.model.freeze_stages, '\n',
                         of_rank_0.train.freeze);
  uint64_t size = text.size();
  transport.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  transport.broadcast(std::as_writable_bytes(std::span(text)), 0);
  Config config = given;
  std::istringstream words(text);
  words >> config.storage >> config.train.accumulate >> config.model.freeze_stages;
  config.train.freeze.clear();
  words >> config.train.freeze;
  return config;
}

}  // namespace

void require_memory_of_cpu(const Config& config) {
  REQUIRE_USAGE(config.backend.device == "cpu", "leave train.memory_mb out, or set backend.device: cpu", config.file,
                ": train.memory_mb limits the memory of a CPU");
}

Config with_memory(const Config& given, Transport& transport, std::optional<HostMemory> host) {
  if (given.train.memory_mb == 0) return given;
  require_memory_of_cpu(given);
  return_freed_memory();
  const int threads = JobShares(transport, int(given.backend.threads)).threads();
  if (transport.rank() != 0) return with_choice_of_rank_0(given, given, transport);
  const int64_t ranks = transport.size();
  if (!host) {
    host = host_memory(given, threads);
    if (!host->absent.empty()) open_datasets(given);  // says what is wrong
  }
  const Found found = fitting(with_classes(given, *host), ranks, *host);
  REQUIRE_USAGE(found.need.total() <= given.train.memory_mb * 1'000'000,
                say(enough_for(found.need), ", or take smaller images, a smaller data.batch or a smaller network",
                    given.model.initial_weights.empty() && given.model.initial_backbone.empty()
                        ? "; a network that begins from weights needs less, since its first stages may be frozen"
                        : ""),
                given.file, ": train.memory_mb: ", given.train.memory_mb, " is too small: the least is ",
                found.need.text(), ", with ", what_is_chosen(given, found.config, ranks),
                host->absent.empty() ? "" : "; the data set, which is not there, would come to it");
  const Config chosen = with_choice_of_rank_0(given, found.config, transport);
  spdlog::info("train.memory_mb: {} is {}; a rank takes {}", given.train.memory_mb,
               what_is_chosen(given, chosen, ranks), found.need.text());
  return chosen;
}

Config with_memory_as_begun(const Config& given, const Config& begun, Transport& transport) {
  const int threads = JobShares(transport, int(given.backend.threads)).threads();
  if (transport.rank() != 0) return with_choice_of_rank_0(given, given, transport);
  const int64_t limit = given.train.memory_mb, before = begun.train.memory_mb, ranks = transport.size();
  if (limit != before)
    spdlog::info("train.memory_mb: the run keeps what it began with{}: {}",
                 before > 0 ? fmt::format(", chosen for {}", before) : "", what_is_chosen(given, begun, ranks));
  if (limit == 0) return with_choice_of_rank_0(given, begun, transport);
  require_memory_of_cpu(given);
  return_freed_memory();
  const HostMemory host = host_memory(given, threads);
  const MemoryNeed need = memory_needed(with_classes(begun, host), ranks, host);
  const bool fits = need.total() <= limit * 1'000'000;
  REQUIRE_USAGE(fits || limit == before, enough_for(need) + ", or leave it out; only a new run chooses again",
                given.file, ": train.memory_mb: ", limit, " is too small for this run, which takes ", need.text());
  if (!fits) spdlog::warn("train.memory_mb: the run takes more than {}: {}", limit, need.text());
  return with_choice_of_rank_0(given, begun, transport);
}

}  // namespace octet
