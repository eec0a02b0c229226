#include "src/train/epoch_sums.h"

#include <nlohmann/json.hpp>

namespace octet {

void EpochSums::add(const StepReport& report, double seconds) {
  ++steps_;
  seconds_ += seconds;
  if (report.skipped) return;
  ++counted_;
  Metrics of_step;
  for (const Scalar& figure : report.figures) of_step.push_back({figure.name, figure.value, 1});
  octet::add(sums_, of_step);
}

EpochRecord EpochSums::record(int64_t epoch) const {
  return {.epoch = epoch, .steps = steps_, .seconds = seconds_, .means = means_of(sums_)};
}

std::string EpochSums::text() const {
  nlohmann::ordered_json sums = nlohmann::ordered_json::object();
  for (const Metric& metric : sums_) sums[metric.name] = metric.sum;
  return nlohmann::ordered_json{{"steps", steps_}, {"counted", counted_}, {"seconds", seconds_}, {"sums", sums}}.dump();
}

EpochSums EpochSums::from_text(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text);
  EpochSums result;
  json.at("steps").get_to(result.steps_);
  json.at("counted").get_to(result.counted_);
  json.at("seconds").get_to(result.seconds_);
  for (const auto& [name, value] : json.at("sums").items())
    result.sums_.push_back({name, value.get<double>(), static_cast<double>(result.counted_)});
  return result;
}

}  // namespace octet
