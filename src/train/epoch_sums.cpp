#include "src/train/epoch_sums.h"

#include <nlohmann/json.hpp>

namespace octet {

void EpochSums::add(const StepReport& report, double seconds) {
  ++steps_;
  seconds_ += seconds;
  if (report.skipped) return;
  ++counted_;
  if (sums_.empty()) sums_ = Scalars(report.figures.size());
  for (size_t i = 0; i < report.figures.size(); ++i)
    sums_[i] = {report.figures[i].name, sums_[i].value + report.figures[i].value};
}

EpochRecord EpochSums::record(int64_t epoch) const {
  EpochRecord record{.epoch = epoch, .steps = steps_, .seconds = seconds_, .means = sums_};
  for (Scalar& mean : record.means) mean.value /= static_cast<double>(counted_);
  return record;
}

std::string EpochSums::text() const {
  nlohmann::ordered_json sums = nlohmann::ordered_json::object();
  for (const Scalar& sum : sums_) sums[sum.name] = sum.value;
  return nlohmann::ordered_json{{"steps", steps_}, {"counted", counted_}, {"seconds", seconds_}, {"sums", sums}}.dump();
}

EpochSums EpochSums::from_text(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text);
  EpochSums result;
  json.at("steps").get_to(result.steps_);
  json.at("counted").get_to(result.counted_);
  json.at("seconds").get_to(result.seconds_);
  for (const auto& [name, value] : json.at("sums").items()) result.sums_.push_back({name, value.get<double>()});
  return result;
}

}  // namespace octet
