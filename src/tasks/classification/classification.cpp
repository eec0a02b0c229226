// Classification: each image has one label. Networks are compared by top-1 accuracy.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/text.h"
#include "src/models/models.h"
#include "src/models/unread_keys.h"
#include "src/tasks/classification/class_answers.h"
#include "src/tasks/classification/class_report.h"
#include "src/tasks/metric_display.h"
#include "src/tasks/task.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

Graph network(const Config& config, const Policy& policy, int64_t height, int64_t width, bool trains) {
  refuse_unread_keys(config);
  Graph graph(policy);
  const Edge images = input(graph, {height, width});
  const std::vector<Head> heads = make_model(graph, images, config.model);
  const bool integers = policy.integers() != nullptr;  // nothing of it trains
  if (!config.train.freeze.empty() && !integers) graph.freeze_through(config.train.freeze);
  const bool mixed = trains && (config.augment.mixup > 0 || config.augment.cutmix > 0);
  softmax_loss(graph, {heads, float(config.train.label_smoothing), {"top1", "top5"}, mixed});
  return graph;
}

// The figures are the means of the plan's metrics. What the network answered to each image is kept for those of the
// classes, and for RUN/evaluation.json if the test set is not too large.
class ClassJudge final : public Judge {
 public:
  ClassJudge(const Dataset& test, bool keeps_answers) : keeps_answers_(keeps_answers), test_(test) {
    all_.images = test.size();
    all_.classes = test.class_names();
    for (int64_t label = std::ssize(all_.classes); label < test.classes(); ++label)
      all_.classes.push_back(std::to_string(label));
  }
  bool wants_probabilities() const override { return keeps_answers_; }

  std::string table() const override {
    const std::string line = show(figures(), 2, true, "  ") + "\n";
    return keeps_answers_ ? line + "\n" + class_table(class_report(all_)) : line;
  }
  std::string csv() const override { return class_csv(class_report(all_)); }
  std::string json() const override {
    if (!keeps_answers_) return Judge::json();
    Json object = Json::parse(Judge::json());
    object.update(Json::parse(class_json(class_report(all_))));
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const ClassAnswers* class_answers() const override { return keeps_answers_ ? &all_ : nullptr; }

  void write(const std::string& run_directory, int64_t step) const override {
    if (!keeps_answers_ || all_.images > most_answers) return;
    try {
      write_answers(run_directory, {step, all_.images, test_.class_names(), all_.files, all_.answers});
    } catch (const FileError& error) {
      spdlog::warn("the answers of step {} are not kept: {}", step, error.what());
    }
  }

 protected:
  void keep(const Batch& batch, Answers& answers) override {
    if (!keeps_answers_) return;
    const std::vector<Answer> of_batch = answers_of(batch, answers.probabilities);
    all_.answers.insert(all_.answers.end(), of_batch.begin(), of_batch.end());
  }
  void judge(Transport& transport, Heart&) override {
    if (!keeps_answers_) return;
    all_.answers = gather(transport, std::move(all_.answers));
    if (test_.file_of(0).empty()) return;
    for (int64_t index = 0; index < test_.size(); ++index) all_.files.push_back(test_.file_of(index));
  }

 private:
  const bool keeps_answers_;
  const Dataset& test_;
  ClassAnswers all_;  // the answers of this rank, and after finish() of all
};

// JSON: {"image": "a.jpg", "top": [{"index": 3, "class": "cat", "probability": 0.97}, ...]}, one object for each image.
// CSV: image, rank, index, class, probability.
struct RankedClass {
  size_t label = 0;
  float probability = 0;
};

class ClassPresentation final : public Presentation {
 public:
  using Presentation::Presentation;

  std::vector<std::string> json(const ShownImage& image, const Answers& answers) const override {
    Json best = Json::array();
    for (const RankedClass& of : top(answers))
      best.push_back({{"index", of.label},
                      {"class", class_name(of.label)},
                      {"probability", std::round(1e5 * of.probability) / 1e5}});
    Json object = {{"image", image.path}, {"top", best}};
    if (options_.logits) object["logits"] = answers.logits;
    return {object.dump(-1, ' ', false, Json::error_handler_t::replace)};
  }

  std::string text(const Answers& answers) const override {
    std::string text;
    for (const RankedClass& of : top(answers))
      text += fmt::format("  {} {:.1f} %", printable(class_name(of.label)), 100 * of.probability);
    return text + "\n";
  }

  std::string csv_names() const override { return "image,rank,index,class,probability\r\n"; }
  std::string csv(const ShownImage& image, const Answers& answers) const override {
    std::string lines;
    int rank = 0;
    for (const RankedClass& of : top(answers))
      lines += fmt::format("{},{},{},{},{:.5f}\r\n", csv_field(image.path), ++rank, of.label,
                           csv_field(class_name(of.label)), of.probability);
    return lines;
  }

  std::vector<std::pair<std::string, double>> shares(const Answers& answers) const override {
    std::vector<std::pair<std::string, double>> all;
    for (const RankedClass& of : top(answers)) all.emplace_back(class_name(of.label), of.probability);
    return all;
  }

 private:
  std::vector<RankedClass> top(const Answers& answers) const {
    std::vector<RankedClass> all(answers.probabilities.size());
    for (size_t label = 0; label < all.size(); ++label) all[label] = {label, answers.probabilities[label]};
    std::ranges::stable_sort(all, std::greater<>(), &RankedClass::probability);
    all.resize(std::min(all.size(), size_t(options_.top)));
    return all;
  }
};

std::unique_ptr<Judge> make_judge(const Dataset& test, bool keeps_answers) {
  return std::make_unique<ClassJudge>(test, keeps_answers);
}
std::unique_ptr<Presentation> present(const Classes& classes, const Presentation::Options& options) {
  return std::make_unique<ClassPresentation>(classes, options);
}

}  // namespace

extern const Task classification = {.name = "classification",
                                    .network = network,
                                    .main_figure = "top1",
                                    .objects = false,
                                    .judge = make_judge,
                                    .presentation = present};

}  // namespace octet
