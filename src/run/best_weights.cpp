#include "src/run/best_weights.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "src/config/foreign_json.h"
#include "src/run/metrics.h"
#include "src/weights/weights_file.h"

namespace octet {
namespace {

constexpr const char *epoch_key = "epoch", *step_key = "step", *figures_key = "figures";  // keys of the metadata

BestEvaluation read_evaluation(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  BestEvaluation best;
  try {
    best.epoch = std::stoll(file.metadata().at(epoch_key));
    best.step = std::stoll(file.metadata().at(step_key));
    const auto figures = parse_foreign_json(file.metadata().at(figures_key), path, /*levels=*/1);
    for (const auto& [name, value] : figures.items())
      best.figures.push_back({name, value.is_null() ? NAN : value.get<double>()});  // JSON has no NaN
  } catch (const std::exception& error) {
    REQUIRE_USAGE(false, "move it away", path, " does not say of which evaluation it is: ", error.what());
  }
  REQUIRE_USAGE(!best.figures.empty(), "move it away", path, " does not say of which evaluation it is");
  return best;
}

// The training loss of the first step that the run recorded; NaN: there is none.
double first_loss(const std::string& run_directory) {
  const std::string file = run_directory + "/metrics.jsonl", text = read_if_there(file);
  const nlohmann::json record = record_in(text.substr(0, text.find('\n')), file + ":1");
  const bool known = record.is_object() && record.contains("loss") && record["loss"].is_number();
  return known ? record["loss"].get<double>() : NAN;
}

}  // namespace

bool is_sound(const BestEvaluation& evaluation, double first_loss) {
  for (const Scalar& figure : evaluation.figures)
    if (figure.name == "loss") return std::isfinite(figure.value) && figure.value <= 2 * first_loss;
  return evaluation.figures.front().value > 0;
}

BestWeights::BestWeights(const std::string& run_directory, bool resumed) : path_(run_directory + "/best.safetensors") {
  if (!resumed) std::filesystem::remove(path_);
  if (!std::filesystem::exists(path_)) return;
  try {
    best_ = read_evaluation(path_);
  } catch (const Error& error) {
    spdlog::warn("the best of the evaluations so far is lost; the best of those to come will replace it: {}",
                 error.what());
  }
}

std::string way_back(const std::string& run_directory) {
  const std::string again = "start again with a lower train.lr or more train.warmup_epochs";
  const BestWeights best(run_directory, /*resumed=*/true);
  if (!best.evaluation() || !is_sound(*best.evaluation(), first_loss(run_directory))) return again;
  return again + "; or begin a new run with a lower train.lr and model.initial_weights: " + run_directory +
         "/best.safetensors";
}

bool BestWeights::exceeded_by(const Scalars& figures) const {
  const double judge = figures.front().value;
  return std::isfinite(judge) && (!best_ || judge > best_->figures.front().value);
}

void BestWeights::replace(const BestEvaluation& evaluation, std::span<const NamedTensor> weights,
                          std::map<std::string, std::string> metadata) {
  nlohmann::ordered_json figures;
  for (const Scalar& figure : evaluation.figures) figures[figure.name] = figure.value;
  metadata[epoch_key] = std::to_string(evaluation.epoch);
  metadata[step_key] = std::to_string(evaluation.step);
  metadata[figures_key] = figures.dump();
  write_weights(path_, weights, std::move(metadata));
  best_ = evaluation;
}

}  // namespace octet
