#include "src/tasks/classification/class_answers.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/config/foreign_json.h"
#include "src/config/json_error.h"

namespace octet {
namespace {

using AnswersJson = nlohmann::ordered_json;

constexpr int64_t most_classes = 1'000'000;  // as model.classes

std::string answers_path(const std::string& run_directory) { return run_directory + "/evaluation.json"; }

float probability_of(const AnswersJson& value) {  // JSON has no NaN
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return static_cast<float>(value.is_null() ? nan : std::clamp(value.get<double>(), 0.0, 1.0));
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
  const std::string file = answers_path(run_directory), text = read_if_there(file, 1 << 26);
  if (!std::filesystem::exists(file)) return {};
  return parse_answers(text, file);
}

ClassAnswers parse_answers(const std::string& text, const std::string& file) {
  const char* const fix = "delete it; the page then leaves out what it holds";
  ClassAnswers all;
  try {
    const auto json = parse_foreign_json(text, file, /*levels=*/2);
    all.step = count_in(json.at("step"), file + ": `step`");
    all.images = count_in(json.at("images"), file + ": `images`");
    json.at("classes").get_to(all.classes);
    if (json.contains("file")) json.at("file").get_to(all.files);
    const auto of_each_image = [&](const char* name) -> const AnswersJson::array_t& {
      const auto& list = json.at(name).get_ref<const AnswersJson::array_t&>();
      REQUIRE_USAGE(static_cast<int64_t>(list.size()) == all.images && all.images <= most_answers, fix, file, ": `",
                    name, "` has ", list.size(), " values for ", all.images, " images, of at most ", most_answers);
      return list;
    };
    const auto &labels = of_each_image("label"), &predicted = of_each_image("predicted"),
               &probabilities = of_each_image("probability");
    const int64_t classes = all.classes.empty() ? most_classes : static_cast<int64_t>(all.classes.size());
    const auto class_in = [&](const AnswersJson& value, size_t image) {
      const int64_t label = value.is_number_float() ? -2 : value.get<int64_t>();
      REQUIRE_USAGE(label >= -1 && label < classes, fix, file, ": image ", image, " has a class that has no name");
      return static_cast<int32_t>(label);
    };
    for (size_t i = 0; i < labels.size(); ++i) {
      const Answer answer{.image = static_cast<int64_t>(i),
                          .label = class_in(labels[i], i),
                          .predicted = class_in(predicted[i], i),
                          .probability = probability_of(probabilities[i])};
      if (answer.label >= 0 && answer.predicted >= 0) all.answers.push_back(answer);
    }
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(__FILE__, __LINE__, say(file, ": octet did not write this file: ", reason_of(error)), fix);
  }
  REQUIRE_USAGE(all.files.empty() || all.files.size() == static_cast<size_t>(all.images), fix, file, ": ",
                all.files.size(), " files of ", all.images, " images");
  return all;
}

}  // namespace octet
