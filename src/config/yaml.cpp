#include "src/config/yaml.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "kernels/base/error.h"
#include "src/config/path_kind.h"

namespace octet {
namespace {

constexpr size_t max_bytes = 1 << 20;

// Refuses what surely is no YAML file, but another argument of a command.
void refuse_swapped(const std::string& path) {
  const PathKind kind = kind_of_path(path);
  const std::string what = say("'", path, "' cannot be read as YAML: it is ", name_of(kind));
  REQUIRE_USAGE(kind != PathKind::run,
                say("give its recipe, ", path, "/config.yaml; `octet train ", path, "/config.yaml --run ", path,
                    " --resume` continues the run"),
                what);
  REQUIRE_USAGE(kind != PathKind::folder,
                say("give a YAML file; `octet new ", path, "` writes one for a folder of images"), what);
  REQUIRE_USAGE(kind != PathKind::weights, "give a recipe, and the weights with --weights or as model.initial_weights",
                what);
  REQUIRE_USAGE(kind != PathKind::image, "give a recipe first, a YAML file", what);
}

}  // namespace

std::string shown(const std::string& text) { return text.size() <= 64 ? text : text.substr(0, 61) + "..."; }

std::string position_of(const YAML::Mark& mark, const std::string& file) {
  return say(file, ":", mark.line + 1, ":", mark.column + 1);
}

// yaml-cpp would take byte 4 for the end of the file and replace malformed characters.
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

std::string read_text_file(const std::string& file) {
  std::error_code error;
  REQUIRE_USAGE(std::filesystem::exists(file, error), "check the path", "'", file, "' does not exist");
  refuse_swapped(file);
  // To open one would wait for its writer. Those of a shell, as in `octet train <(...)`, have one.
  REQUIRE_USAGE(!std::filesystem::is_fifo(file, error) || file.starts_with("/dev/") || file.starts_with("/proc/"),
                "give a YAML file", "'", file, "' is a pipe");
  std::ifstream stream(file, std::ios::binary);
  std::string text(max_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  REQUIRE_USAGE(stream.is_open() && !stream.bad(), "give a readable YAML file", "'", file, "' cannot be read");
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

namespace {

// Refuses a second document, text behind which yaml-cpp finds documents without end, such as ",-", and aliases that
// together stand for more text than a file may have.
class OneDocument final : public YAML::EventHandler {
 public:
  explicit OneDocument(const std::string& file) : file_(file) {}
  void OnDocumentStart(const YAML::Mark& mark) override {
    REQUIRE_USAGE(!seen_ || mark.pos != first_.pos, "correct the YAML syntax", position_of(mark, file_),
                  ": text that belongs to no key");
    REQUIRE_USAGE(!seen_, "keep one document in a file", position_of(mark, file_), ": a second YAML document");
    seen_ = true;
    first_ = mark;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t anchor) override { add(1, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(sizes_[anchor], 0);
    REQUIRE_USAGE(size_ <= max_bytes, "write the values out where they are few", position_of(mark, file_),
                  ": aliases stand for more than 1 MiB, the limit of such a file");
  }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t anchor, const std::string& text) override {
    add(1 + text.size(), anchor);
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    begin(anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  void add(size_t size, YAML::anchor_t anchor) {
    size_ += size;
    if (anchor != 0) sizes_[anchor] = size;
  }
  void begin(YAML::anchor_t anchor) {
    open_.emplace_back(anchor, size_);
    ++size_;
  }
  void end() {
    const auto [anchor, before] = open_.back();
    open_.pop_back();
    if (anchor != 0) sizes_[anchor] = size_ - before;
  }

  const std::string& file_;
  bool seen_ = false;
  YAML::Mark first_;
  size_t size_ = 0;                                      // bytes and nodes so far, those of aliases included
  std::map<YAML::anchor_t, size_t> sizes_;               // of what has an anchor
  std::vector<std::pair<YAML::anchor_t, size_t>> open_;  // lists and mappings, with size_ at their start
};

}  // namespace

YAML::Node parse_yaml(const std::string& text, const std::string& file) {
  REQUIRE_USAGE(text.size() <= max_bytes, "give a file of a few lines of YAML", file,
                ": larger than 1 MiB, the limit of such a file");
  const size_t bad = first_bad_byte(text);
  REQUIRE_USAGE(bad == text.size(), "save the file as UTF-8 text", file, ":",
                1 + std::count(text.begin(), text.begin() + bad, '\n'), ":", bad - (text.rfind('\n', bad) + 1) + 1,
                ": not UTF-8 text");
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    OneDocument one(file);
    while (parser.HandleNextDocument(one)) {
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw UsageError(__FILE__, __LINE__, say(position_of(error.mark, file), ": ", error.msg),
                     "correct the YAML syntax");
  }
}

YamlEntries entries_of(const YAML::Node& node, const std::string& file) {
  REQUIRE_USAGE(
      node.IsMap(), "write `key: value` lines", position_of(node.Mark(), file), ": ",
      node.IsSequence() ? "a list where a key is expected" : say("`", shown(node.Scalar()), "` is not a mapping"));
  YamlEntries entries(node.begin(), node.end());
  std::map<std::string, std::string> seen;
  for (const auto& [key, value] : entries) {
    const std::string at = position_of(key.Mark(), file);
    REQUIRE_USAGE(key.IsScalar(), "write `key: value` lines", at, ": ", key.IsMap() ? "a mapping" : "a list",
                  " where a key is expected");
    const auto [first, added] = seen.emplace(key.Scalar(), at);  // yaml-cpp would take the first of the two
    REQUIRE_USAGE(added, "remove one of the two", at, ": `", shown(key.Scalar()), "` was given before, at ",
                  first->second);
  }
  return entries;
}

std::string text_of(const YAML::Node& node, const std::string& file) {
  REQUIRE_USAGE(node.IsScalar() || node.IsNull(), "give one plain value", position_of(node.Mark(), file), ": ",
                node.IsMap() ? "a mapping" : "a list", " where a value is expected");
  const std::string& tag = node.Tag();
  REQUIRE_USAGE(tag.empty() || tag == "?" || tag == "!", "remove the tag", position_of(node.Mark(), file),
                ": YAML tag `", shown(tag), "` is not read");
  return node.IsNull() ? "" : node.Scalar();
}

}  // namespace octet
