// How the answers to images are shown, to people and to programs.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "src/data/loader.h"
#include "src/graph/answers.h"

namespace octet {

struct ShownImage {
  int64_t id = 1;  // its place among the images that were asked for, from 1
  std::string path;
};

// Texts of one image each. The task makes it, see Task::presentation.
class Presentation {
 public:
  struct Options {
    int64_t top = 5;      // of a classifier: so many classes, the most probable first
    bool logits = false;  // of a classifier: add those of all classes to the JSON objects
  };
  Presentation(const Classes& classes, const Options& options) : classes_(classes), options_(options) {}
  virtual ~Presentation() = default;

  virtual std::vector<std::string> json(const ShownImage&, const Answers&) const = 0;  // objects
  virtual std::string text(const Answers&) const = 0;                                  // what follows "PATH:"
  // A table as RFC 4180 has it: its first line, and the lines of an image.
  virtual std::string csv_names() const = 0;
  virtual std::string csv(const ShownImage&, const Answers&) const = 0;
  // What a page shows beside the picture: names, each with a share from 0 to 1.
  virtual std::vector<std::pair<std::string, double>> shares(const Answers&) const = 0;

 protected:
  const std::string& class_name(size_t label) const { return classes_.names[label]; }
  const Classes& classes_;
  const Options options_;
};

// A field of a CSV line, in quotes where it needs them. An apostrophe comes before what a spreadsheet would compute.
inline std::string csv_field(const std::string& text) {
  const bool computes = text.find_first_of("=+-@\t\r") == 0;
  if (!computes && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = computes ? "\"'" : "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace octet
