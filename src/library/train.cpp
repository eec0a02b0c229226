#include "src/train/train.h"

#include <exception>
#include <limits>

#include "comm/launcher.h"
#include "kernels/base/error.h"
#include "src/library/failure.h"
#include "src/library/messages.h"
#include "src/run/result.h"

namespace octet::library {
namespace {

bool is_yaml(const std::string& recipe) { return recipe.starts_with('{') || recipe.find('\n') != recipe.npos; }

// Functions of the caller. What they throw stops the training, and leaves the library when that has ended.
class Caller {
 public:
  explicit Caller(const TrainOptions& options) : options_(options) {}

  bool stops() {
    return asked([&] { return options_.stop && options_.stop(); });
  }
  bool goes_on(const StepCount& at, const StepReport& report, double learning_rate) {
    const double loss =
        report.skipped || report.figures.empty() ? std::numeric_limits<double>::quiet_NaN() : report.figures[0].value;
    return !asked([&] { return options_.on_step && !options_.on_step({at.done, at.total, loss, learning_rate}); });
  }
  void throw_again() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  template <class Question>
  bool asked(const Question& question) {
    if (thrown_) return true;
    try {
      return question();
    } catch (...) {
      thrown_ = std::current_exception();
      return true;
    }
  }

  const TrainOptions& options_;
  std::exception_ptr thrown_;
};

Result train_alone(const Config& config, const TrainOptions& options, Caller& caller) {
  RankWatch watch(/*timeout=*/0);  // a watchdog would end the process
  const std::unique_ptr<Transport> transport = make_self_transport();
  const octet::TrainOptions inner = {.run_directory = options.run_directory,
                                     .resume = options.resume,
                                     .prints = false,
                                     .stop = [&] { return caller.stops(); },
                                     .on_step = [&](const StepCount& at, const StepReport& report,
                                                    double rate) { return caller.goes_on(at, report, rate); }};
  const TrainingEnd end = run_train(config, *transport, inner, watch);
  Result result{end.directory, end.code == exit_done, end.steps};
  if (const auto read = result.finished ? read_result(end.directory) : std::nullopt)
    for (const Scalar& figure : read->metrics) result.figures.emplace_back(figure.name, figure.value);
  return result;
}

}  // namespace

Result train(const std::string& recipe, const std::vector<std::string>& overrides, const TrainOptions& options) {
  Caller caller(options);
  Result result = with_failures([&] {
    show_warnings();
    REQUIRE_USAGE(launched().ranks == 1, "start `octet train` in its place, or this process without mpirun",
                  "octet::train() trains on one rank, and ", launched().ranks, " were launched");
    const Config config = is_yaml(recipe) ? parse_config(recipe, "recipe", overrides) : load_config(recipe, overrides);
    return train_alone(config, options, caller);
  });
  caller.throw_again();
  return result;
}

}  // namespace octet::library
