// The files that people write: configurations and studies.
#pragma once
#include <yaml-cpp/yaml.h>

#include <string>
#include <utility>
#include <vector>

namespace octet {

// The text of a file. UsageError: it cannot be read.
std::string read_text_file(const std::string& file);
// The only document of `text`. UsageError, with file, line and column: larger than 1 MiB, by itself or with what its
// aliases stand for; not UTF-8, not YAML, several documents.
YAML::Node parse_yaml(const std::string& text, const std::string& file);
// Keys and values of a mapping. UsageError: the node is not a mapping, or it has a key twice.
using YamlEntries = std::vector<std::pair<YAML::Node, YAML::Node>>;
YamlEntries entries_of(const YAML::Node&, const std::string& file);
// The text of a plain value; empty for null. UsageError: a list, a mapping or a tag.
std::string text_of(const YAML::Node&, const std::string& file);

// The first byte that is a control character or does not belong to well-formed UTF-8; text.size() if there is none.
size_t first_bad_byte(const std::string& text);
// At most 64 characters of what a user wrote, for a message.
std::string shown(const std::string& text);
// "run.yaml:3:7"
std::string position_of(const YAML::Mark&, const std::string& file);

}  // namespace octet
