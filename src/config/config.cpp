#include "src/config/config.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/yaml.h"

namespace octet {
namespace {

// By key, where its value was set: "run.yaml:3:7" or "--set train.lr=1". Absent: the value is the default.
using Positions = std::map<std::string, std::string>;

[[noreturn]] void refuse_unknown(const std::string& position, const std::string& path) {
  throw UsageError(__FILE__, __LINE__, say(position, ": unknown key `", shown(path), "`; ", hint_for(path)),
                   "correct the spelling; `octet help keys` lists every key");
}

void assign_at(const std::string& position, const Key& key, Config& config, const std::vector<std::string>& texts) {
  std::string given;
  for (const std::string& text : texts) given += (given.empty() ? "" : ", ") + shown(text);
  REQUIRE_USAGE(assign(key, config, texts), say("give ", domain_of(key)), position, ": `", key.path, "` takes ",
                domain_of(key), ", not `", shown(given), "`");
}

// The text of a value, or those of a list.
std::vector<std::string> texts_of(const YAML::Node& value, const Key& key, const std::string& file) {
  if (!takes_list(key)) return {text_of(value, file)};
  std::vector<std::string> texts;
  if (value.IsSequence())
    for (const YAML::Node& item : value) texts.push_back(text_of(item, file));
  else if (!value.IsNull())
    texts.push_back(text_of(value, file));
  return texts;
}

// Assigns the values of a mapping. section: its path with a dot behind it; empty for the whole file.
void read(const YAML::Node& mapping, const std::string& section, Config& config, Positions& positions) {
  const std::string& file = config.file;
  for (const auto& [name, value] : entries_of(mapping, file)) {
    const std::string path = section + name.Scalar(), at = position_of(value.Mark(), file);
    const auto [first, added] = positions.emplace(path, position_of(name.Mark(), file));
    if (const Key* key = find_key(path)) {
      REQUIRE_USAGE(added, "remove one of the two", position_of(name.Mark(), file), ": `", path,
                    "` was given before, at ", first->second);
      assign_at(at, *key, config, texts_of(value, *key, file));
    } else {
      if (!is_section(path)) refuse_unknown(first->second, path);
      REQUIRE_USAGE(value.IsMap(), "give the section's keys on lines below it, indented by spaces, not tabs", at, ": `",
                    path, "` is a section, not a value");
      read(value, path + ".", config, positions);
    }
  }
}

void apply_override(const std::string& text, const Origins& origins, Config& config, Positions& positions) {
  const auto origin = origins.find(text);
  const std::string position = origin == origins.end() ? "--set " + shown(text) : origin->second;
  const size_t equals = text.find('=');
  REQUIRE_USAGE(equals != std::string::npos, "write --set key=value", position, ": no `=`");
  REQUIRE_USAGE(first_bad_byte(text) == text.size(), "use UTF-8 text", position, ": not UTF-8 text");
  const std::string path = text.substr(0, equals);
  std::string value = text.substr(equals + 1);
  const Key* key = find_key(path);
  REQUIRE_USAGE(key || !is_section(path), "set one of its keys", position, ": `", path, "` is a section, not a value");
  if (!key) refuse_unknown(position, path);
  std::vector<std::string> texts{value};
  if (takes_list(*key)) {  // [80, 120] or 80,120
    std::erase_if(value, [](char c) { return c == ' '; });
    if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
    texts.clear();
    std::istringstream items(value);
    for (std::string item; std::getline(items, item, ',');) texts.push_back(item);
  }
  assign_at(position, *key, config, texts);
  positions[path] = position;
}

// Mistakes that no single key shows. Names of data sources, models, policies and instruction sets are checked where
// their tables are.
void check_together(const Config& config, const Positions& positions) {
  const auto at = [&](const std::string& path) {
    const auto found = positions.find(path);
    return (found == positions.end() ? config.file : found->second) + ": `" + path + "`";
  };
  for (const auto& [name, list] :
       {std::pair{"data.mean", &config.data.mean}, {"data.deviation", &config.data.deviation}})
    REQUIRE_USAGE(list->empty() || list->size() == 3, say("give ", name, " three numbers, for red, green and blue"),
                  at(name), ": length ", list->size());
  const auto& milestones = config.train.milestones;
  REQUIRE_USAGE(config.train.schedule != "multi_step" || !milestones.empty(),
                "set train.milestones, for example [80, 120]", at("train.schedule"),
                " multi_step needs `train.milestones`");
  REQUIRE_USAGE(std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>()) == milestones.end(),
                "give each milestone once, in order", at("train.milestones"), ": epochs do not rise");
  REQUIRE_USAGE(config.train.warmup_epochs <= static_cast<double>(config.train.epochs), "warm up for fewer epochs",
                at("train.warmup_epochs"), " ", config.train.warmup_epochs, " is more than `train.epochs` ",
                config.train.epochs);
  REQUIRE_USAGE(config.train.head_lr == 0 || config.train.lr > 0, "set train.lr above 0, or train.freeze",
                at("train.head_lr"), " follows the schedule of `train.lr`, which is 0");
  REQUIRE_USAGE(!config.train.nesterov || config.train.momentum > 0, "set train.momentum above 0", at("train.nesterov"),
                " needs `train.momentum`");
  REQUIRE_USAGE(config.train.minutes == 0 || config.train.steps == 0, "keep one of them", at("train.minutes"),
                " and `train.steps` both say when the training ends");
  REQUIRE_USAGE(config.train.minutes == 0 || config.train.schedule == "cosine" || config.train.schedule == "constant",
                "set train.schedule: cosine", at("train.minutes"), " does not know where `train.schedule` ",
                config.train.schedule, " would fall");
  const bool adamw = config.train.optimizer == "adamw";
  REQUIRE_USAGE(!adamw || !config.train.nesterov, "leave train.nesterov out", at("train.nesterov"),
                " is for SGD, and `train.optimizer` is adamw");
  REQUIRE_USAGE(!adamw || (config.train.momentum < 1 && config.train.beta2 < 1),
                "set train.momentum and train.beta2 below 1", at("train.optimizer"),
                " adamw divides by 1 - `train.momentum` and 1 - `train.beta2`");
  const Config::Train defaults;
  REQUIRE_USAGE(adamw || (config.train.beta2 == defaults.beta2 && config.train.epsilon == defaults.epsilon),
                "leave train.beta2 and train.epsilon out, or set train.optimizer: adamw", at("train.optimizer"),
                " sgd reads neither `train.beta2` nor `train.epsilon`");
  REQUIRE_USAGE(config.comm.exchange != "exact" || (config.train.norm_group > 0 && config.policy.clip.enabled),
                "set train.norm_group, for example to 32, and leave policy.clip.enabled: true", at("comm.exchange"),
                " exact needs norm groups, and clips that all ranks share");
  REQUIRE_USAGE(config.comm.transport != "nccl" || config.backend.device == "cuda",
                "set backend.device: cuda, or comm.transport: auto", at("comm.transport"),
                " nccl is for GPUs, and `backend.device` is ", config.backend.device);
  REQUIRE_USAGE(config.comm.transport != "nccl" || !config.backend.share_gpu,
                "set comm.transport: mpi, or backend.share_gpu: false", at("comm.transport"),
                " nccl needs a GPU for each rank, and `backend.share_gpu` lets ranks share one");
}

}  // namespace

Config parse_config(const std::string& text, const std::string& file, const std::vector<std::string>& overrides,
                    const Origins& origins) {
  Config config;
  config.file = file;
  Positions positions;
  const YAML::Node root = parse_yaml(text, file);
  REQUIRE_USAGE(!root.IsMap() || !root["grid"], say("start it with `octet study ", file, "`"), file,
                ": a study, which has a `grid`, and no recipe");
  if (!root.IsNull()) read(root, "", config, positions);
  for (const std::string& override : overrides) apply_override(override, origins, config, positions);
  check_together(config, positions);
  return config;
}

Config load_config(const std::string& file, const std::vector<std::string>& overrides, const Origins& origins) {
  const std::string text = read_text_file(file);
  REQUIRE_USAGE(text.find_first_not_of(" \t\r\n") != std::string::npos,
                "write a recipe as in configs/, or {} for defaults", file, ": empty");
  return parse_config(text, file, overrides, origins);
}

}  // namespace octet
