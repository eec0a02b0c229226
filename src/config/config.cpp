#include "src/config/config.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "kernels/base/error.h"
#include "src/config/keys.h"

namespace octet {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxDepth = 16;

// Where each value that is not a default was set: "run.yaml:3:7" or "--set train.lr=1".
using Positions = std::map<std::string, std::string>;

std::string shown(const std::string& text) { return text.size() <= 64 ? text : text.substr(0, 61) + "..."; }

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

// Turns the parser's events into values, so that no tree is built: whatever the key table does not know (and with it
// any deep nesting) ends the parse at its first event.
class Reader : public YAML::EventHandler {
 public:
  Reader(const std::string& file, Config& config, Positions& positions)
      : file_(file), config_(config), positions_(positions) {}

  std::string at(const YAML::Mark& mark) const { return say(file_, ":", mark.line + 1, ":", mark.column + 1); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    REQUIRE_USAGE(++documents_ == 1, "keep one document in a file", at(mark), ": a second YAML document");
  }
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_alias(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(mark); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!sections_.empty()) OnScalar(mark, "", anchor, "");  // else the document is empty: all defaults
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    check_plain(mark, tag, anchor);
    REQUIRE_USAGE(!sections_.empty(), "write `key: value` lines", at(mark), ": `", shown(text), "` is not a mapping");
    if (list_) {
      items_.push_back(text);
    } else if (!path_) {
      open(mark, text);
    } else {
      const Key* key = find_key(*path_);
      REQUIRE_USAGE(key, "give the section's keys on lines below it, indented by spaces, not tabs", at(mark), ": `",
                    *path_, "` is a section, not a value");
      assign_at(at(mark), *key, config_,
                takes_list(*key) && text.empty() ? std::vector<std::string>{} : std::vector{text});
      path_.reset();
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_plain(mark, tag, anchor);
    const Key* key = path_ && !list_ ? find_key(*path_) : nullptr;
    REQUIRE_USAGE(key && takes_list(*key), key ? say("give ", domain_of(*key)) : "write `key: value` lines", at(mark),
                  ": a list", path_ ? say(", which `", *path_, "` does not take here") : " where a key is expected");
    list_ = true;
    list_position_ = at(mark);
    items_.clear();
  }
  void OnSequenceEnd() override {
    assign_at(list_position_, *find_key(*path_), config_, items_);
    list_ = false;
    path_.reset();
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_plain(mark, tag, anchor);
    REQUIRE_USAGE(sections_.size() < kMaxDepth, "nest sections as in the key table", at(mark), ": nested deeper than ",
                  kMaxDepth);
    REQUIRE_USAGE(sections_.empty() || (path_ && !list_ && is_section(*path_)), "give one plain value", at(mark),
                  ": a mapping", path_ ? say(", which `", *path_, "` does not take here") : " where a key is expected");
    sections_.push_back(path_.value_or(""));
    path_.reset();
  }
  void OnMapEnd() override { sections_.pop_back(); }

 private:
  void refuse_alias(const YAML::Mark& mark) const {
    throw UsageError(__FILE__, __LINE__, say(at(mark), ": YAML anchors and aliases are not read"),
                     "write the value out");
  }
  void check_plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse_alias(mark);
    REQUIRE_USAGE(tag.empty() || tag == "?" || tag == "!", "remove the tag", at(mark), ": YAML tag `", shown(tag),
                  "` is not read");
  }
  // Takes `word` as the key whose value comes next.
  void open(const YAML::Mark& mark, const std::string& word) {
    const std::string& section = sections_.back();
    const std::string path = section.empty() ? word : section + "." + word;
    if (!find_key(path) && !is_section(path)) refuse_unknown(at(mark), path);
    const auto [first, added] = positions_.emplace(path, at(mark));
    REQUIRE_USAGE(added, "keep one of the two", at(mark), ": `", path, "` was given before, at ", first->second);
    path_ = path;
  }

  const std::string& file_;
  Config& config_;
  Positions& positions_;
  int documents_ = 0;
  std::vector<std::string> sections_;  // paths of the open mappings, outermost first
  std::optional<std::string> path_;    // the key whose value comes next; empty: a key comes next
  bool list_ = false;                  // inside that value, a list
  std::string list_position_;
  std::vector<std::string> items_;
};

// The first byte that is a control character or does not belong to well-formed UTF-8; text.size() if there is none.
// (yaml-cpp would take byte 4 for the end of the file and replace malformed characters.)
size_t first_bad_byte(const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned lead = byte(at);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    const bool control = (lead < 0x20 && lead != '\t' && lead != '\n' && lead != '\r') || lead == 0x7F;
    if (length == 0 || control) return at;
    for (size_t i = 1; i < length; ++i)
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    const unsigned second = byte(at + 1);  // overlong forms, surrogates and values above 0x10FFFF
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) || (lead == 0xF0 && second < 0x90) ||
        (lead == 0xF4 && second >= 0x90))
      return at;
    at += length;
  }
  return at;
}

void read_text(const std::string& text, const std::string& file, Config& config, Positions& positions) {
  REQUIRE_USAGE(text.size() <= kMaxBytes, "give the configuration file, a few lines of YAML", file,
                ": larger than 1 MiB, the limit of a configuration");
  const size_t bad = first_bad_byte(text);
  REQUIRE_USAGE(bad == text.size(), "save the file as UTF-8 text", file, ":",
                1 + std::count(text.begin(), text.begin() + bad, '\n'), ":", bad - (text.rfind('\n', bad) + 1) + 1,
                ": not UTF-8 text");
  Reader reader(file, config, positions);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& error) {
    throw UsageError(__FILE__, __LINE__, say(reader.at(error.mark), ": ", error.msg), "correct the YAML syntax");
  }
}

void apply_override(const std::string& text, Config& config, Positions& positions) {
  const std::string position = "--set " + shown(text);
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

// What no single key shows to be wrong. Names of models and policies are checked where their tables are.
void check_together(const Config& config, const Positions& positions) {
  const auto at = [&](const std::string& path) {
    const auto found = positions.find(path);
    return (found == positions.end() ? config.file : found->second) + ": `" + path + "`";
  };
  const bool on_disk =
      config.data.name == "cifar10" || config.data.name == "image_folder" || config.data.name == "packed";
  REQUIRE_USAGE(!on_disk || !config.data.root.empty(), "set data.root to the directory of the data set",
                at("data.name"), " ", config.data.name, " needs `data.root`");
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
  REQUIRE_USAGE(!config.train.nesterov || config.train.momentum > 0, "set train.momentum above 0", at("train.nesterov"),
                " needs `train.momentum`");
  REQUIRE_USAGE(config.comm.transport != "nccl" || config.backend.device == "cuda",
                "set backend.device: cuda, or comm.transport: auto", at("comm.transport"),
                " nccl is for GPUs, and `backend.device` is ", config.backend.device);
}

}  // namespace

Config parse_config(const std::string& text, const std::string& file, const std::vector<std::string>& overrides) {
  Config config;
  config.file = file;
  Positions positions;
  read_text(text, file, config, positions);
  for (const std::string& override : overrides) apply_override(override, config, positions);
  check_together(config, positions);
  return config;
}

Config load_config(const std::string& file, const std::vector<std::string>& overrides) {
  std::error_code error;
  REQUIRE_USAGE(std::filesystem::exists(file, error), "check the path of the configuration file", "'", file,
                "' does not exist");
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  REQUIRE_USAGE(stream.is_open() && !stream.bad() && !std::filesystem::is_directory(file, error),
                "give a readable YAML file", "'", file, "' cannot be read");
  text.resize(static_cast<size_t>(stream.gcount()));
  REQUIRE_USAGE(text.find_first_not_of(" \t\r\n") != std::string::npos,
                "write a recipe as in configs/, or {} for defaults", file, ": empty");
  return parse_config(text, file, overrides);
}

}  // namespace octet
