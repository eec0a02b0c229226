// train.memory_mb: what a rank computes at once, and what trains, so that it fits.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "src/data/augment/canvases.h"
#include "src/models/detectors.h"
#include "src/tasks/task.h"
#include "src/train/memory_need.h"
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

struct Found {
  Config config;
  MemoryNeed need;
};

// The first that fits, or the smallest.
Found fitting(const Config& given, int64_t ranks) {
  const int64_t limit = given.train.memory_mb * 1'000'000, decoding = bytes_of_decoding(given);
  std::optional<Found> smallest;
  const auto judge = [&](const Config& config) {
    Found found{config, memory_needed(config, ranks, decoding)};
    const bool fits = found.need.total() <= limit;
    if (!smallest || fits || found.need.total() < smallest->need.total()) smallest = std::move(found);
    return fits;
  };
  const std::vector<int64_t> parts = numbers_of_parts(given, ranks);
  for (const Config& frozen : by_frozen_stages(given)) {
    Config least = by_storage(frozen).back();
    least.train.accumulate = parts.back();
    if (!judge(least)) continue;
    for (const int64_t count : parts) {
      Config divided = frozen;
      divided.train.accumulate = count;
      for (const Config& config : by_storage(divided))
        if (judge(config)) return std::move(*smallest);
    }
  }
  return std::move(*smallest);
}

}  // namespace

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

Config with_memory(const Config& given, Transport& transport) {
  if (given.train.memory_mb == 0) return given;
  REQUIRE_USAGE(given.backend.device == "cpu", "leave train.memory_mb out, or set backend.device: cpu", given.file,
                ": train.memory_mb limits the memory of a CPU");
  if (transport.rank() != 0) return with_choice_of_rank_0(given, given, transport);
  const int64_t ranks = transport.size();
  Config known = given;
  if (known.model.classes == 0) known.model.classes = open_datasets(given).train->classes();
  const Found found = fitting(known, ranks);
  REQUIRE_USAGE(found.need.total() <= given.train.memory_mb * 1'000'000,
                // Another process may begin with a little more memory than this one.
                say("set train.memory_mb to ", (found.need.total() * 21 / 20 + 999'999) / 1'000'000,
                    " or more, or take smaller images, a smaller data.batch or a smaller network",
                    given.model.initial_weights.empty() && given.model.initial_backbone.empty()
                        ? "; a network that begins from weights needs less, since its first stages may be frozen"
                        : ""),
                given.file, ": train.memory_mb: ", given.train.memory_mb, " is too small: the least is ",
                found.need.text(), ", with ", what_is_chosen(given, found.config, ranks));
  const Config chosen = with_choice_of_rank_0(given, found.config, transport);
  spdlog::info("train.memory_mb: {} is {}; a rank takes {}", given.train.memory_mb,
               what_is_chosen(given, chosen, ranks), found.need.text());
  return chosen;
}

}  // namespace octet
