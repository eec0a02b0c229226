// Progress on the terminal: one live line, or plain lines if the output is a file or a pipe. Only rank 0 uses it.
#pragma once
#include <cstdint>
#include <deque>
#include <ostream>
#include <string>
#include <vector>

namespace octet {

struct StepStatus {
  int64_t epoch = 1, epochs = 1;     // counted from 1
  int64_t step = 1, steps = 1;       // of this epoch, counted from 1
  int64_t steps_left = 0;            // until the end of training
  double other_seconds_left = 0;     // of evaluations and checkpoints until then
  int64_t images = 0;                // of this step, over all ranks
  std::vector<std::string> figures;  // "loss 1.234", "top-1 56.1 %": the most important one first
  double data_share = 0;             // share of the time that was spent waiting for data, 0 to 1
};

struct EpochStatus {
  int64_t epoch = 1, epochs = 1;
  std::string train = {}, test = {};  // figures; test is empty if the epoch was not evaluated
  bool best = false;                  // its test is the best so far
  double images_per_second = 0, seconds = 0;
};

class Progress {
 public:
  // Writes to standard output. If it is not a terminal, writes a plain line every `interval` steps.
  explicit Progress(int64_t interval);
  // For tests. live: rewrites one line of at most `width` columns; what does not fit is left out, the least important
  // parts first. bold: epoch lines are bold.
  Progress(std::ostream& out, bool live, int width, bool bold, int64_t interval);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // now: seconds of any steady clock. Speed and remaining time are computed from the last steps.
  void step(const StepStatus& status, double now);
  void epoch(const EpochStatus& status);  // writes a permanent line; on a narrow terminal several

 private:
  size_t columns() const;  // that a line may fill

  std::ostream& out_;
  bool live_, bold_;
  int width_;
  int64_t interval_;
  struct Moment {
    double time;
    int64_t images;
  };
  std::deque<Moment> window_;
  double drawn_ = 0;        // when the live line was drawn
  bool line_open_ = false;  // a live line is on the terminal
};

// 75 -> "1:15", 3700 -> "1:01:40"
std::string clock_text(double seconds);

}  // namespace octet
