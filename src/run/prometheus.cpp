#include "src/run/prometheus.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace octet {
namespace {

constexpr const char* first_words = "# HELP octet_";  // of each file that octet writes

// A label's value, with what the format wants escaped.
std::string escaped(const std::string& text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  return value + "\"";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.17g}", value);
}

class Page {
 public:
  explicit Page(const std::string& run) : run_("run=" + escaped(run)) {}
  void gauge(const std::string& name, const std::string& help) {
    text_ += "# HELP octet_" + name + " " + help + "\n# TYPE octet_" + name + " gauge\n";
    name_ = name;
  }
  void value(double value, const std::string& labels = "") {
    text_ += "octet_" + name_ + "{" + run_ + (labels.empty() ? "" : "," + labels) + "} " + number(value) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  const std::string run_;
  std::string name_, text_;
};

}  // namespace

std::string prometheus_text(const LatestFigures& latest) {
  Page page(latest.run);
  page.gauge("step", "Completed training steps.");
  page.value(double(latest.step));
  page.gauge("steps", "Training steps in all.");
  page.value(double(latest.steps));
  page.gauge("images_per_second", "Training speed over all ranks.");
  page.value(latest.images_per_second);
  page.gauge("checkpoint_timestamp_seconds", "When the last checkpoint was written; 0: none yet.");
  page.value(latest.saved);
  page.gauge("figure", "Figures of the last step that was recorded.");
  for (const Scalar& scalar : latest.scalars) page.value(scalar.value, "name=" + escaped(scalar.name));
  page.gauge("rank_own_seconds", "Seconds of a recent step that a rank spends outside of collectives.");
  for (const Heartbeat& rank : latest.ranks)
    page.value(rank.own_seconds(), fmt::format("rank=\"{}\",host={}", rank.rank, escaped(rank.host)));
  page.gauge("rank_step", "Step in which a rank is.");
  for (const Heartbeat& rank : latest.ranks)
    page.value(double(rank.step), fmt::format("rank=\"{}\",host={}", rank.rank, escaped(rank.host)));
  return page.text();
}

bool may_write_prometheus(const std::string& file) {
  struct stat found = {};
  if (lstat(file.c_str(), &found) != 0) return errno == ENOENT;
  if (!S_ISREG(found.st_mode)) return false;
  std::string start(strlen(first_words), '\0');
  std::ifstream(file, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == first_words;
}

// Without fsync: after a crash of the machine the figures are old anyway.
bool write_prometheus(const std::string& file, const LatestFigures& latest) {
  if (!may_write_prometheus(file)) return false;
  const std::string temporary = file + ".tmp", text = prometheus_text(latest);
  unlink(temporary.c_str());  // what is left there, or was put there: it may be a link to another file
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return false;
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return close(descriptor) == 0 && written && std::rename(temporary.c_str(), file.c_str()) == 0;
}

}  // namespace octet
