#include "src/train/progress.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace octet {
namespace {

constexpr size_t kWindow = 200;             // steps
constexpr double kRedrawSeconds = 0.1;      // a live line changes at most ten times a second
constexpr const char* kClear = "\r\033[K";  // to the line's start, and erase it

// Returns the current width of the terminal in columns; 0: the output is no terminal. Open MPI gives each rank a
// terminal. Its width is 0 if mpirun's own output is a file or on another host, so OCTET_COLUMNS passes on the width of
// the user's terminal.
int terminal_width() {
  const char* columns = std::getenv("OCTET_COLUMNS");
  if (columns != nullptr && std::atoi(columns) > 0) return std::atoi(columns);
  const char* term = std::getenv("TERM");
  winsize size{};
  if (term == nullptr || std::string_view(term) == "dumb" || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

bool wants_color() {  // no-color.org
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

std::string bar(int64_t step, int64_t steps) {
  constexpr int64_t kCells = 10;
  const auto done = static_cast<size_t>(std::clamp<int64_t>(kCells * step / std::max<int64_t>(steps, 1), 0, kCells));
  std::string cells = std::string(done, '=') + std::string(kCells - done, ' ');
  if (done < kCells) cells[done] = '>';
  return "[" + cells + "]";
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e12) : 0);
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

Progress::Progress(int64_t interval)
    : Progress(std::cout, terminal_width() > 0, /*width=*/0, terminal_width() > 0 && wants_color(), interval) {}

Progress::Progress(std::ostream& out, bool live, int width, bool bold, int64_t interval)
    : out_(out), live_(live), bold_(bold), width_(width), interval_(std::max<int64_t>(interval, 1)) {}

Progress::~Progress() {
  if (line_open_) out_ << '\n' << std::flush;
}

void Progress::step(const StepStatus& status, double now) {
  window_.push_back({now, status.images});
  if (window_.size() > kWindow) window_.pop_front();
  const bool due = live_ ? !line_open_ || now - drawn_ >= kRedrawSeconds : status.step % interval_ == 0;
  if (!due) return;

  const double elapsed = now - window_.front().time;
  std::string speed, left;
  if (elapsed > 0) {
    int64_t images = -window_.front().images;  // the time of the first step is not in the window
    for (const Moment& moment : window_) images += moment.images;
    const double seconds_per_step = elapsed / static_cast<double>(window_.size() - 1);
    speed = fmt::format("  {:.0f} img/s", static_cast<double>(images) / elapsed);
    left = "  ETA " + clock_text(seconds_per_step * static_cast<double>(status.steps_left));
  }
  const std::string figures =
      fmt::format("  {}{}  data {:.1f} %{}", status.figures, speed, 100 * status.data_share, left);
  if (!live_) {
    out_ << fmt::format("epoch {}/{}  step {}/{}{}", status.epoch, status.epochs, status.step, status.steps, figures)
         << '\n'
         << std::flush;
    return;
  }
  std::string line = fmt::format("epoch {}/{}  {}  {}/{}{}", status.epoch, status.epochs,
                                 bar(status.step, status.steps), status.step, status.steps, figures);
  const int width = width_ > 0 ? width_ : terminal_width();
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(width - 1, 1))));  // the last column would wrap
  out_ << kClear << line << std::flush;
  line_open_ = true;
  drawn_ = now;
}

void Progress::epoch(const EpochStatus& status) {
  const std::string test = status.test.empty() ? "not tested" : "test " + status.test;
  out_ << (line_open_ ? kClear : "") << (bold_ ? "\033[1m" : "")
       << fmt::format("epoch {}/{}: train {} | {} | {:.0f} img/s | {}", status.epoch, status.epochs, status.train, test,
                      status.images_per_second, clock_text(status.seconds))
       << (bold_ ? "\033[0m" : "") << '\n'
       << std::flush;
  line_open_ = false;
  window_.clear();  // the time of the evaluation does not count as a step's
}

}  // namespace octet
