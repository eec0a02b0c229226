#include "src/report/study/study_plan.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/yaml.h"
#include "src/data/augment/canvases.h"
#include "src/run/result.h"
#include "src/run/run_directory.h"
#include "src/train/dry_plan.h"
#include "src/train/rank.h"

namespace octet {
namespace {

constexpr size_t longest_name = 200;  // of a directory, in bytes; file systems allow 255
constexpr size_t most_runs = 4096;    // more are a slip, and a few lines can ask for more than memory holds
constexpr size_t most_settings = size_t{16} << 20;  // bytes of the labels and settings of all runs

// The text as the name of a directory. Letters of all scripts are kept: they are the bytes above ASCII.
std::string plain(std::string text) {
  const auto kept = [](unsigned char c) { return c >= 0x80 || isalnum(c) || c == '.' || c == '_'; };
  std::ranges::replace_if(
      text, [&](char c) { return !kept(static_cast<unsigned char>(c)); }, '-');
  return text;
}

// A number, then at most what explains it: "92.32", "NaN", "91.9 ± 0.2".
bool is_published_value(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end != text.c_str();
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), root_(parse_yaml(read_text_file(file), file)) {}

  StudyPlan read(const std::vector<std::string>& overrides) {
    for (const auto& [key, value] : entries_of(root_, file_)) {
      static const std::vector<std::string> known = {"title", "note",  "base",     "set",   "grid",
                                                     "seeds", "ranks", "baseline", "paper", "paper_says"};
      REQUIRE_USAGE(std::ranges::find(known, key.Scalar()) != known.end(), say("use one of: ", joined(known, ", ")),
                    at(key), ": unknown key `", shown(key.Scalar()), "`");
    }
    StudyPlan plan;
    plan.title = text("title", std::filesystem::path(file_).stem().string());
    plan.note = text("note", "");
    plan.paper_says = text("paper_says", "the paper");
    const std::string base = text("base", "");
    REQUIRE_USAGE(!base.empty(), "name a recipe: `base: ../cifar10_resnet20_unified_int8.yaml`", file_, ": no `base`");
    plan.base = (std::filesystem::path(file_).parent_path() / base).lexically_normal().string();
    plan.ranks = number("ranks", 1);
    REQUIRE_USAGE(plan.ranks >= 1 && plan.ranks <= 4096, "give 1 to 4096", file_, ": `ranks` is ", plan.ranks);

    const std::vector<std::string> common = settings(root_["set"]);
    size_t shared = 0;  // bytes of the settings that all runs have
    for (const auto* list : {&common, &overrides})
      for (const std::string& setting : *list) shared += setting.size();
    std::vector<std::vector<std::string>> row_overrides = grid(plan, shared);
    find_baselines(plan);
    read_paper(plan);
    for (size_t row = 0; row < plan.rows.size(); ++row) {
      for (int64_t seed : seeds()) {
        StudyRun run{plain(joined(plan.rows[row].labels, "-")) + "-seed" + std::to_string(seed), row, seed, common};
        run.overrides.insert(run.overrides.end(), row_overrides[row].begin(), row_overrides[row].end());
        run.overrides.insert(run.overrides.end(), overrides.begin(), overrides.end());
        for (const std::string& setting : run.overrides)
          REQUIRE_USAGE(!setting.starts_with("seed="), "write `seeds: [1, 2, 3]` in the study", file_, ": `", setting,
                        "` would give all runs of a row one seed");
        run.overrides.push_back("seed=" + std::to_string(seed));
        const Config config = load_config(plan.base, run.overrides, origins_);  // finds mistakes before the first run
        if (plan.runs.empty() || plan.runs.back().row != row) check(config, plan.ranks);
        REQUIRE_USAGE(run.name.size() <= longest_name, "shorten the labels", file_, ": the name of a run, `",
                      shown(run.name), "`, has ", run.name.size(), " bytes, more than ", longest_name);
        for (const StudyRun& other : plan.runs)
          REQUIRE_USAGE(other.name != run.name, "give each row its own labels", file_, ": two runs are named ",
                        run.name);
        plan.runs.push_back(std::move(run));
      }
    }
    return plan;
  }

 private:
  static void check(const Config& config, int64_t ranks) {
    for (const ImageShape& shape : input_shapes(config.data))
      DryPlan(config, shape.height, shape.width, batch_of_plan(config, ranks), {.storage = storage_of(config)});
  }
  std::string at(const YAML::Node& node) const { return position_of(node.Mark(), file_); }

  std::string text(const char* key, const std::string& otherwise) const {
    return root_[key] ? text_of(root_[key], file_) : otherwise;
  }
  int64_t number(const char* key, int64_t otherwise) const {
    if (!root_[key]) return otherwise;
    try {
      return root_[key].as<int64_t>();
    } catch (const YAML::Exception&) {
      throw UsageError(__FILE__, __LINE__, say(at(root_[key]), ": `", key, "` is not an integer"), "give an integer");
    }
  }

  // {train.lr: 0.1, data.root: x} -> key=value
  std::vector<std::string> settings(const YAML::Node& node) {
    std::vector<std::string> settings;
    if (!node || node.IsNull()) return settings;
    for (const auto& [key, value] : entries_of(node, file_)) {
      std::vector<std::string> texts;
      if (value.IsSequence())
        for (const YAML::Node& item : value) texts.push_back(text_of(item, file_));
      else
        texts.push_back(text_of(value, file_));
      settings.push_back(key.Scalar() + "=" + joined(texts, ","));
      origins_.emplace(settings.back(), at(key));
    }
    return settings;
  }

  // The runs of the grid and the seeds, before any of them is made.
  void require_bounded(const YAML::Node& node, size_t shared) {
    size_t runs = seeds().size(), bytes = shared;  // of one run, at most
    for (const auto& [axis, labels] : entries_of(node, file_)) {
      size_t longest = 0;
      for (const auto& [label, value] : labels.IsMap() ? entries_of(labels, file_) : YamlEntries{}) {
        size_t own = label.Scalar().size();
        for (const std::string& setting : settings(value)) own += setting.size();
        longest = std::max(longest, own);
      }
      bytes += longest;
      runs *= std::max<size_t>(labels.size(), 1);
      REQUIRE_USAGE(runs <= most_runs, "divide it into several studies", at(axis), ": the grid and the seeds give ",
                    "more than ", most_runs, " runs");
    }
    REQUIRE_USAGE(runs * bytes <= most_settings, "set what the runs share in the recipe", file_, ": its ", runs,
                  " runs have up to ", bytes, " bytes of settings each, beyond ", most_settings, " together");
  }

  // Refuses a key that two axes set: the later axis would win, and the labels of the other would say what is not so.
  void require_separate(const YAML::Node& node) {
    std::map<std::string, std::string> axes;  // by the keys that they set
    for (const auto& [axis, labels] : entries_of(node, file_))
      for (const auto& [label, value] : entries_of(labels, file_))
        for (const std::string& setting : settings(value)) {
          const std::string key = setting.substr(0, setting.find('='));
          const std::string& first = axes.emplace(key, axis.Scalar()).first->second;
          REQUIRE_USAGE(first == axis.Scalar(), "set it in one axis", at(value), ": axis `", shown(axis.Scalar()),
                        "` sets `", shown(key), "`, which axis `", shown(first), "` sets too");
        }
  }

  // The rows of the grid: the product of the axes; the last axis changes fastest. Returns the settings of each.
  std::vector<std::vector<std::string>> grid(StudyPlan& plan, size_t shared) {
    const YAML::Node node = root_["grid"];
    REQUIRE_USAGE(node && node.IsMap() && node.size() > 0, "write `grid: {policy: {fp32: {policy.name: fp32}, ...}}`",
                  file_, ": no `grid`");
    require_bounded(node, shared);
    std::vector<std::vector<std::string>> overrides{{}};
    plan.rows = {StudyRow{}};
    for (const auto& [axis, labels] : entries_of(node, file_)) {
      plan.axes.push_back(axis.Scalar());
      REQUIRE_USAGE(labels.IsMap() && labels.size() > 0, "give it labels: `policy: {fp32: {policy.name: fp32}}`",
                    at(axis), ": axis `", plan.axes.back(), "` has no labels");
      std::vector<StudyRow> rows;
      std::vector<std::vector<std::string>> longer;
      for (size_t row = 0; row < plan.rows.size(); ++row) {
        for (const auto& [label, value] : entries_of(labels, file_)) {
          REQUIRE_USAGE(label.Scalar().find_first_not_of(' ') != std::string::npos, "give it a name", at(label),
                        ": a label of axis `", plan.axes.back(), "` is empty");
          rows.push_back(plan.rows[row]);
          rows.back().labels.push_back(label.Scalar());
          longer.push_back(overrides[row]);
          for (std::string& setting : settings(value)) longer.back().push_back(std::move(setting));
        }
      }
      plan.rows = std::move(rows);
      overrides = std::move(longer);
    }
    require_separate(node);
    return overrides;
  }

  // baseline: {policy: fp32}. The baseline of a row differs from it in these axes only.
  void find_baselines(StudyPlan& plan) {
    const YAML::Node node = root_["baseline"];
    if (!node) return;
    std::map<size_t, std::string> fixed;
    for (const std::string& setting : settings(node)) {
      const size_t equals = setting.find('=');
      const auto axis = std::find(plan.axes.begin(), plan.axes.end(), setting.substr(0, equals));
      REQUIRE_USAGE(axis != plan.axes.end(), say("use one of: ", joined(plan.axes, ", ")), at(node), ": `",
                    setting.substr(0, equals), "` is not an axis of the grid");
      fixed[size_t(axis - plan.axes.begin())] = setting.substr(equals + 1);
    }
    for (StudyRow& row : plan.rows) {
      std::vector<std::string> wanted = row.labels;
      for (const auto& [axis, label] : fixed) wanted[axis] = label;
      for (size_t other = 0; other < plan.rows.size(); ++other)
        if (plan.rows[other].labels == wanted) row.baseline = other;
      REQUIRE_USAGE(row.baseline.has_value(), "name labels of the grid", at(node), ": no row is ",
                    joined(wanted, " / "));
    }
  }

  // paper: {"resnet20 / fp32": 92.32}. The labels of a row as in the table, joined by " / ".
  void read_paper(StudyPlan& plan) const {
    const YAML::Node node = root_["paper"];
    if (!node) return;
    for (const auto& [key, value] : entries_of(node, file_)) {
      const std::string name = key.Scalar();
      const auto row =
          std::find_if(plan.rows.begin(), plan.rows.end(), [&](const StudyRow& r) { return r.name() == name; });
      REQUIRE_USAGE(row != plan.rows.end(), say("use a row's name, for example \"", plan.rows.front().name(), "\""),
                    at(key), ": no row is named `", name, "`");
      row->paper = text_of(value, file_);
      REQUIRE_USAGE(is_published_value(row->paper), "give the published value, or leave the row out", at(value), ": `",
                    shown(row->paper), "` is not a number");
    }
  }

  std::vector<int64_t> seeds() const {
    if (!root_["seeds"]) return {1};
    try {
      auto seeds = root_["seeds"].as<std::vector<int64_t>>();
      REQUIRE_USAGE(!seeds.empty(), "write [1, 2, 3]", at(root_["seeds"]), ": `seeds` is empty");
      return seeds;
    } catch (const YAML::Exception&) {
      throw UsageError(__FILE__, __LINE__, say(at(root_["seeds"]), ": `seeds` is not a list of integers"),
                       "write [1, 2, 3]");
    }
  }

  std::string file_;
  YAML::Node root_;
  Origins origins_;  // of the study's settings
};

}  // namespace

std::string StudyRow::name() const { return joined(labels, " / "); }

std::string changed_since(const StudyPlan& plan, const StudyRun& run, const std::string& run_directory) {
  const std::string file = run_directory + "/config.yaml";
  if (!std::filesystem::exists(file)) return {};
  try {
    const Config before = load_config(file, {}), now = load_config(plan.base, run.overrides);
    auto difference = training_difference(before, now);
    if (!difference)
      difference = first_difference(before, now, [](std::string_view path) { return path == "train.steps"; });
    const std::optional<Result> result = read_result(run_directory);
    if (!difference && result && result->ranks != plan.ranks)
      return say("`ranks: ", result->ranks, "` then, `ranks: ", plan.ranks, "` now");
    return difference ? "`" + difference->before + "` then, `" + difference->now + "` now" : "";
  } catch (const UsageError& error) {  // another version wrote it, or it is damaged
    return say("it cannot be compared: ", error.what());
  }
}

StudyPlan read_study(const std::string& file, const std::vector<std::string>& overrides) {
  return Reader(file).read(overrides);
}

}  // namespace octet
