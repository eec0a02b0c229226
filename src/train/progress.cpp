#include "src/train/progress.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>

#include "kernels/base/terminal.h"

namespace octet {
namespace {

constexpr size_t kWindow = 200;             // steps
constexpr double kRedrawSeconds = 0.1;      // a live line changes at most ten times a second
constexpr const char* kClear = "\r\033[K";  // to the line's start, and erase it

bool wants_color() {  // no-color.org
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

// "[===>    ]"; empty where there is no room for it.
std::string bar(int64_t step, int64_t steps, size_t room) {
  constexpr size_t kCells = 10, kLeast = 4;
  if (room < kLeast + 2) return {};
  const auto cells = static_cast<int64_t>(std::min(kCells, room - 2));
  const auto done = std::clamp<int64_t>(cells * step / std::max<int64_t>(steps, 1), 0, cells);
  std::string text(static_cast<size_t>(cells), ' ');
  std::fill_n(text.begin(), done, '=');
  if (done < cells) text[static_cast<size_t>(done)] = '>';
  return "[" + text + "]";
}

// A line of parts that must fit into some columns. Parts are added by importance; each has its place in the line.
class FittedLine {
 public:
  explicit FittedLine(size_t columns) : room_(columns + kGap) {}
  size_t room() const { return room_ < kGap ? 0 : room_ - kGap; }  // of the next part
  void add(int place, const std::string& part) {
    if (part.empty() || part.size() > room()) return;
    room_ -= part.size() + kGap;
    parts_[place] = part;
  }
  std::string text() const {
    std::string line;
    for (const auto& [place, part] : parts_) line += (line.empty() ? "" : "  ") + part;
    return line;
  }

 private:
  static constexpr size_t kGap = 2;
  size_t room_;
  std::map<int, std::string> parts_;  // by place
};

// The parts with `between` them, on as many lines as they need. Later lines are indented.
std::string wrapped(const std::vector<std::string>& parts, const std::string& between, size_t columns) {
  std::string text, line;
  for (const std::string& part : parts) {
    const size_t filled = line.size() - (line.rfind('\n') + 1);  // a part may have lines of its own
    if (!line.empty() && filled + between.size() + part.size() > columns) {
      text += line + "\n";
      line = "  " + part;
    } else {
      line += (line.empty() ? "" : between) + part;
    }
  }
  return text + line;
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e12) : 0);
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

Progress::Progress(int64_t interval)
    : Progress(std::cout, terminal_columns(STDOUT_FILENO) > 0, /*width=*/0,
               terminal_columns(STDOUT_FILENO) > 0 && wants_color(), interval) {}

Progress::Progress(std::ostream& out, bool live, int width, bool bold, int64_t interval)
    : out_(out), live_(live), bold_(bold), width_(width), interval_(std::max<int64_t>(interval, 1)) {}

Progress::~Progress() {
  if (line_open_) out_ << '\n' << std::flush;
}

size_t Progress::columns() const {
  if (!live_) return std::numeric_limits<size_t>::max() / 2;
  const size_t width = width_ > 0 ? static_cast<size_t>(width_) : terminal_columns(STDOUT_FILENO);
  return std::max<size_t>(width, 2) - 1;  // the last column would wrap
}

void Progress::step(const StepStatus& status, double now) {
  window_.push_back({now, status.images});
  if (window_.size() > kWindow) window_.pop_front();
  const bool due = live_ ? !line_open_ || now - drawn_ >= kRedrawSeconds : status.step % interval_ == 0;
  if (!due) return;

  const double elapsed = now - window_.front().time;
  std::string speed, left, data = fmt::format("data {:.1f} %", 100 * status.data_share);
  if (elapsed > 0) {
    int64_t images = -window_.front().images;  // the time of the first step is not in the window
    for (const Moment& moment : window_) images += moment.images;
    const double seconds_per_step = elapsed / static_cast<double>(window_.size() - 1);
    speed = fmt::format("{:.0f} img/s", static_cast<double>(images) / elapsed);
    left = "ETA " + clock_text(seconds_per_step * static_cast<double>(status.steps_left) + status.other_seconds_left);
  }
  enum Place { of_epoch, cells, of_step, figures, speeds = 100, waits, remains };
  FittedLine line(columns());
  line.add(of_epoch, fmt::format("epoch {}/{}", status.epoch, status.epochs));
  line.add(of_step, fmt::format("{}{}/{}", live_ ? "" : "step ", status.step, status.steps));
  if (!status.figures.empty()) line.add(figures, status.figures.front());
  line.add(remains, left);
  for (size_t i = 1; i < status.figures.size(); ++i) line.add(figures + static_cast<int>(i), status.figures[i]);
  line.add(speeds, speed);
  if (live_) line.add(cells, bar(status.step, status.steps, line.room()));
  line.add(waits, data);
  out_ << (live_ ? kClear : "") << line.text() << (live_ ? "" : "\n") << std::flush;
  if (!live_) return;
  line_open_ = true;
  drawn_ = now;
}

void Progress::epoch(const EpochStatus& status) {
  const std::string head = fmt::format("epoch {}/{}:", status.epoch, status.epochs);
  std::vector<std::string> parts = {"train " + status.train,
                                    status.test.empty() ? "not tested" : "test " + status.test};
  if (status.best) parts.emplace_back("best so far");
  parts.push_back(fmt::format("{:.0f} img/s", status.images_per_second));
  parts.push_back(clock_text(status.seconds));
  parts.front() = wrapped({head, parts.front()}, " ", columns());
  out_ << (line_open_ ? kClear : "") << (bold_ ? "\033[1m" : "") << wrapped(parts, " | ", columns())
       << (bold_ ? "\033[0m" : "") << '\n'
       << std::flush;
  line_open_ = false;
  window_.clear();  // the time of the evaluation does not count as a step's
}

}  // namespace octet
