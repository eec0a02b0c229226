#include "src/tasks/classification/class_answers.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/config/json_error.h"

namespace octet {
namespace {

using AnswersJson = nlohmann::ordered_json;

std::string answers_path(const std::string& run_directory) { return run_directory + "/evaluation.json"; }

float probability_of(const AnswersJson& value) {  // JSON has no NaN
  return value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>();
}

}  // namespace

std::vector<Answer> answers_of(const Batch& batch, std::span<const float> probabilities) {
  const size_t count = batch.samples.size(), classes = probabilities.size() / count;
  std::vector<Answer> answers;
  for (size_t i = 0; i < count; ++i) {
    if (batch.samples[i] < 0) continue;
    const auto row = probabilities.subspan(i * classes, classes);
    const auto greatest = std::ranges::max_element(row);
    answers.push_back({.image = batch.samples[i],
                       .label = batch.targets.labels[i],
                       .predicted = static_cast<int32_t>(greatest - row.begin()),
                       .probability = *greatest});
  }
  return answers;
}

void write_answers(const std::string& run_directory, const ClassAnswers& all) {
  const auto images = static_cast<size_t>(all.images);
  std::vector<int32_t> labels(images, -1), predicted(images, -1);
  std::vector<double> probabilities(images, 0);
  for (const Answer& answer : all.answers) {
    const auto image = static_cast<size_t>(answer.image);
    labels[image] = answer.label;
    predicted[image] = answer.predicted;
    probabilities[image] = std::round(double{answer.probability} * 1e4) / 1e4;
  }
  AnswersJson json = {{"step", all.step}, {"images", all.images},   {"classes", all.classes},
                      {"label", labels},  {"predicted", predicted}, {"probability", probabilities}};
  if (!all.files.empty()) json["file"] = all.files;
  write_durably(answers_path(run_directory), json.dump(-1, ' ', false, AnswersJson::error_handler_t::replace) + "\n");
}

std::optional<ClassAnswers> read_answers(const std::string& run_directory) {
  const std::string file = answers_path(run_directory), fix = "delete it; the page then leaves out what it holds";
  if (!std::filesystem::exists(file)) return {};
  ClassAnswers all;
  try {
    const auto json = AnswersJson::parse(read_if_there(file));
    json.at("step").get_to(all.step);
    json.at("images").get_to(all.images);
    json.at("classes").get_to(all.classes);
    if (json.contains("file")) json.at("file").get_to(all.files);
    const AnswersJson &labels = json.at("label"), &predicted = json.at("predicted"),
                      &probabilities = json.at("probability");
    for (size_t i = 0; i < labels.size(); ++i) {
      const Answer answer{.image = static_cast<int64_t>(i),
                          .label = labels.at(i).get<int32_t>(),
                          .predicted = predicted.at(i).get<int32_t>(),
                          .probability = probability_of(probabilities.at(i))};
      if (answer.label >= 0 && answer.predicted >= 0) all.answers.push_back(answer);
    }
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(__FILE__, __LINE__, say(file, ": octet did not write this file: ", reason_of(error)), fix);
  }
  const bool fits = all.answers.empty() || all.answers.back().image < all.images;
  REQUIRE_USAGE(fits && (all.files.empty() || all.files.size() == static_cast<size_t>(all.images)), fix, file, ": ",
                all.files.size(), " files of ", all.images, " images");
  const auto classes = static_cast<int32_t>(all.classes.size());
  for (const Answer& answer : all.answers)
    REQUIRE_USAGE(classes == 0 || std::max(answer.label, answer.predicted) < classes, fix, file, ": image ",
                  answer.image, " has a class that has no name");
  return all;
}

}  // namespace octet
