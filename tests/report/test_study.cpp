// Studies: the grid, its mistakes, and the table of finished runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/config/config.h"
#include "src/report/study/study_plan.h"
#include "src/report/study/study_table.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

// clang-format off
constexpr const char* good =
    "title: \"networks & policies\"\n"
    "base: recipe.yaml\n"
    "paper_says: \"paper (%)\"\n"
    "set: {train.epochs: 2}\n"
    "seeds: [1, 2]\n"
    "grid:\n"
    "  network: {resnet20: {model.name: resnet20}, mobile: {model.name: mobilenet_v2}}\n"
    "  policy: {fp32: {policy.name: fp32}, int8: {policy.name: unified_int8, train.milestones: [1, 2]}}\n"
    "baseline: {policy: fp32}\n"
    "paper: {resnet20 / fp32: 92.32}\n";
// clang-format on

class Study : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("octet-study-" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    std::ofstream(root_ / "recipe.yaml") << "data: {name: shapes}\n";
  }
  void TearDown() override { fs::remove_all(root_); }
  StudyPlan read(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(root_ / "study.yaml") << text;
    return read_study((root_ / "study.yaml").string(), overrides);
  }
  void refuse(std::string text, const std::string& from, const std::string& to, const std::string& word) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    try {
      read(text.replace(at, from.size(), to));
      ADD_FAILURE() << "no error that says " << word;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
  fs::path root_;
};

TEST_F(Study, GridIsTheProductOfItsAxes) {
  const StudyPlan plan = read(good, {"data.batch=64"});
  ASSERT_EQ(plan.rows.size(), 4u);
  EXPECT_EQ(plan.rows[1].name(), "resnet20 / int8");
  EXPECT_EQ(plan.rows[3].baseline, 2u);
  EXPECT_EQ(plan.rows[0].paper, "92.32");
  ASSERT_EQ(plan.runs.size(), 8u);
  EXPECT_EQ(plan.runs[3].name, "resnet20-int8-seed2");
  const std::vector<std::string> wanted = {"train.epochs=2",       "model.name=resnet20", "policy.name=unified_int8",
                                           "train.milestones=1,2", "data.batch=64",       "seed=2"};
  EXPECT_EQ(plan.runs[3].overrides, wanted);
}

TEST_F(Study, LettersOfAllScriptsNameRuns) {
  std::string text = good;
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"mobile:", "сеть α/2:"}, {"int8:", "網 8:"}})
    text.replace(text.find(from), from.size(), to);
  EXPECT_EQ(read(text).runs.back().name, "сеть-α-2-網-8-seed2");
}

TEST_F(Study, SettingsOfTheCommandLineAreNamedAsSuch) {
  try {
    read(good, {"train.lrr=1"});
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find("--set train.lrr=1: unknown key"), 0u) << error.what();
  }
}

TEST_F(Study, ShippedStudiesAreValid) {
  int count = 0;
  std::ifstream file(OCTET_SOURCE_DIR "/configs/studies/README.md");
  const std::string readme(std::istreambuf_iterator<char>(file), {});
  for (const auto& entry : fs::directory_iterator(OCTET_SOURCE_DIR "/configs/studies")) {
    if (entry.path().extension() != ".yaml") continue;
    EXPECT_NE(readme.find('`' + entry.path().stem().string() + '`'), std::string::npos) << entry.path();
    EXPECT_GT(read_study(entry.path().string(), {}).runs.size(), 0u) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST_F(Study, MistakesAreNamed) {
  refuse(good, "seeds:", "seed:", "unknown key `seed`");
  refuse(good, "recipe.yaml", "none.yaml", "none.yaml");
  refuse(good, "policy.name: fp32", "policy.nam: fp32", "study.yaml:8:19: unknown key `policy.nam`; nearest");
  refuse(good, "train.epochs: 2", "train.epochs: two", "study.yaml:4:7: `train.epochs` takes");
  refuse(good, "train.milestones: [1, 2]", "train.schedule: multi_step",
         "study.yaml:8:73: `train.schedule` multi_step");
  refuse(good, "fp32: {policy", "\"\": {policy", "a label of axis `policy` is empty");
  refuse(good, "int8: {policy", std::string(250, 'f') + ": {policy", "shorten the labels");
  refuse(good, "resnet20 / fp32: 92.32", "resnet20 / fp32: hello", "study.yaml:10:26: `hello` is not a number");
  refuse(good, "{policy: fp32}", "{policy: fp16}", "fp16");
  refuse(good, "{policy: fp32}", "{polcy: fp32}", "polcy");
  refuse(good, "resnet20 / fp32: 92.32", "resnet20 / fp8: 1", "resnet20 / fp8");
  refuse(good, "[1, 2]\ngrid", "[1, 1]\ngrid", "two runs");
  refuse(good, "[1, 2]\ngrid", "many\ngrid", "seeds");
  refuse(good, "network: {", "network: [", "YAML");
  refuse(good, "[1, 2]\ngrid", "[]\ngrid", "empty");
  refuse(good, "grid:", "seeds: [3]\ngrid:", "was given before");
  refuse(good, "resnet20: {model.name: resnet20}", "resnet20: {seed: 3}", "one seed");
  refuse(good, "model.name: resnet20", "model.name: resnet21", "resnet21");
  refuse(good, "policy.name: fp32", "policy.name: wage, train.momentum: 0, train.decay: 0", "has a norm");
  refuse(good, "model.name: resnet20", "data.image_size: 64", "32 x 32");
  refuse(good, "int8: {policy.name: unified_int8", "int8: {model.name: resnet20",
         "study.yaml:8:45: axis `policy` sets `model.name`, which axis `network` sets too");
}

// A few lines can ask for more runs than memory holds.
TEST_F(Study, MoreRunsThanAnybodyTrainsAreRefused) {
  std::string axes;
  for (char axis = 'a'; axis <= 't'; ++axis)
    axes += std::string("  ") + axis + ": {0: {}, 1: {}, 2: {}, 3: {}, 4: {}, 5: {}, 6: {}, 7: {}, 8: {}, 9: {}}\n";
  refuse(good, "baseline", axes + "baseline", "study.yaml:11:3: the grid and the seeds give more than 4096 runs");
  std::string seeds;
  for (int seed = 0; seed < 5000; ++seed) seeds += std::to_string(seed) + ", ";
  refuse(good, "[1, 2]\ngrid", "[" + seeds + "0]\ngrid", "more than 4096 runs");
  std::string labels = "  many: {";
  for (int label = 0; label < 40; ++label) labels += "v" + std::to_string(label) + ": {}, ";
  std::string many = good;
  many.insert(many.find("baseline"), labels + "}\n");
  refuse(many, "train.epochs: 2}", "data.root: " + std::string(200000, 'x') + "}", "its 320 runs have up to 2000");
}

TEST_F(Study, TableHasMeansDropsAndFailures) {
  const StudyPlan plan = read(good);
  const auto finish = [&](size_t run, double top1) {
    const fs::path directory = root_ / plan.runs[run].name;
    fs::create_directories(directory);
    std::ofstream(directory / "result.json") << nlohmann::json{{"top1", top1},
                                                               {"images_per_second", 1000.0},
                                                               {"backend", "cpu"},
                                                               {"isa", "avx2"},
                                                               {"threads", run + 1},
                                                               {"images_per_epoch", 10000},
                                                               {"data", run == 2 ? "other" : "same"},
                                                               {"peak_memory_bytes", 500000000},
                                                               {"commit", run < 3 ? "aaaaaaa" : "bbbbbbb"}};
    std::ofstream(directory / "config.yaml") << to_yaml(load_config(plan.base, plan.runs[run].overrides));
    std::ofstream(directory / "metrics.jsonl")
        << "{\"step\": 10, \"kind\": \"test\", \"top1\": " << top1 << "}\nhalf a li";
  };
  finish(0, 0.90), finish(1, 0.92), finish(2, 0.89), finish(3, 0.90);
  fs::create_directories(root_ / plan.runs[4].name);
  std::ofstream(root_ / plan.runs[4].name / "failed.txt") << "loss is not finite\n";
  write_study_table(plan, root_.string());
  std::ifstream stream(root_ / "table.md");
  const std::string table((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_NE(table.find("| resnet20 | fp32 | 2/2 | 91.00 ± 1.41 | - | 92.32 | 10.0 ± 0.0 | 500 ± 0 |"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("| resnet20 | int8 | 2/2 | 89.50 ± 0.71 | 1.50 ± 1.12 |"), std::string::npos) << table;
  EXPECT_NE(table.find("| mobile | fp32 | 0/2 | failed |"), std::string::npos) << table;
  EXPECT_NE(table.find("loss is not finite"), std::string::npos);
  EXPECT_NE(
      table.find("Runs by commit: 3 of aaaaaaa; 1 of bbbbbbb. Times: 1 on cpu avx2, threads: 1; 1 on cpu avx2, t"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("Runs by data: 1 of other; 3 of same."), std::string::npos) << table;
  std::ifstream json(root_ / "results.json");
  EXPECT_NEAR(nlohmann::json::parse(json)["rows"][1]["drop"].get<double>(), 1.5, 1e-9);
  EXPECT_TRUE(fs::exists(root_ / "accuracy.svg") && fs::exists(root_ / "curves.svg"));
  std::ifstream html(root_ / "study.html");
  const std::string page((std::istreambuf_iterator<char>(html)), {});
  for (const char* part :
       {"<h1>networks &amp; policies</h1>", "<td>91.00 ± 1.41</td>", "<li>mobile-fp32-seed1: loss is not",
        "Top-1 accuracy, by policy</h2>", ">fp32</text>", ">int8</text>", ">resnet20</text>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("<img"), std::string::npos);

  // A result of other settings is left out; what cannot change it, is none.
  std::ofstream(root_ / plan.runs[2].name / "config.yaml")
      << to_yaml(load_config(plan.base, plan.runs[2].overrides)) << "\n";
  auto changed = plan.runs[3].overrides;
  changed.insert(changed.end(), {"train.steps=7", "data.workers=3"});
  std::ofstream(root_ / plan.runs[3].name / "config.yaml") << to_yaml(load_config(plan.base, changed));
  write_study_table(plan, root_.string());
  std::ifstream again(root_ / "table.md");
  const std::string left((std::istreambuf_iterator<char>(again)), {});
  EXPECT_NE(left.find("| resnet20 | int8 | 1/2 | 89.00 |"), std::string::npos) << left;
  EXPECT_NE(left.find("- resnet20-int8-seed2: `train.steps: 7` then, `train.steps: 0` now"), std::string::npos) << left;
}

TEST_F(Study, ControlCharactersAreShown) {
  std::string text = good;
  text.replace(text.find("{resnet20: {"), 1, "{\"a\\x1b[31m\\nb\": {model.name: vgg7}, ");
  text += "note: \"first\\x9b\\nsecond\"\n";
  write_study_table(read(text), root_.string());
  std::ifstream stream(root_ / "table.md");
  const std::string table((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_NE(table.find("\nfirst\\xc2\\x9b\nsecond\n\n"), std::string::npos) << table;
  EXPECT_NE(table.find("| a\\x1b[31m\\x0ab | fp32 |"), std::string::npos) << table;
}

// Begun, and finished if it has a result, with accuracies by step.
class StudyOfRuns : public Study {
 protected:
  fs::path tested(size_t run, const std::vector<std::pair<int, double>>& tests) {
    fs::path directory = root_ / plan_.runs[run].name;
    fs::create_directories(directory);
    std::ofstream(directory / "config.yaml") << to_yaml(load_config(plan_.base, plan_.runs[run].overrides));
    std::ofstream metrics(directory / "metrics.jsonl");
    for (const auto& [step, top1] : tests)
      metrics << nlohmann::json{{"step", step}, {"kind", "test"}, {"top1", top1}} << "\n";
    return directory;
  }
  void finish(size_t run, const std::vector<std::pair<int, double>>& tests, int64_t ranks = 1) {
    std::ofstream(tested(run, tests) / "result.json")
        << nlohmann::json{{"top1", tests.back().second}, {"ranks", ranks}};
  }
  void fail(size_t run, const std::vector<std::pair<int, double>>& tests, const std::string& reason) {
    std::ofstream(tested(run, tests) / "failed.txt") << reason << "\n";
  }
  void write() { write_study_table(plan_, root_.string()); }
  std::string text(const char* name) const {
    std::ifstream stream(root_ / name);
    return std::string((std::istreambuf_iterator<char>(stream)), {});
  }
  void SetUp() override {
    Study::SetUp();
    plan_ = read(good);
  }
  StudyPlan plan_;
};

// Where a run was stopped and resumed, a test may be missing.
TEST_F(StudyOfRuns, CurvesAreMeansOfTheSameSteps) {
  finish(0, {{100, 0.1}, {200, 0.2}, {300, 0.3}});
  finish(1, {{100, 0.1}, {200, 0.4}});
  write();
  const std::string svg = text("curves.svg");
  EXPECT_NE(svg.find("<title>resnet20 / fp32: 30 at last</title>"), std::string::npos) << svg;
}

TEST_F(StudyOfRuns, DropsAreOfTheSameSeeds) {
  finish(0, {{100, 0.90}});
  finish(2, {{100, 0.89}}), finish(3, {{100, 0.80}});
  finish(4, {{100, 0.90}}), finish(7, {{100, 0.80}});
  write();
  const std::string table = text("table.md");
  EXPECT_NE(table.find("| resnet20 | int8 | 2/2 | 84.50 ± 6.36 | 1.00 (1 seed) |"), std::string::npos) << table;
  EXPECT_NE(table.find("| mobile | int8 | 1/2 | 80.00 | - |"), std::string::npos) << table;
  const auto rows = nlohmann::json::parse(text("results.json"))["rows"];
  EXPECT_EQ(rows[1]["seeds"], (std::vector{1, 2}));
  EXPECT_EQ(rows[0].count("deviation"), 0u);
}

TEST_F(StudyOfRuns, FailuresAreShown) {
  fail(0, {{100, 0.3}, {200, 0.1}}, "not finite");
  finish(2, {{100, 0.89}}), fail(3, {{100, 0.2}}, "caf\xe9.jpg");
  write();
  EXPECT_NE(text("curves.svg").find("<title>resnet20 / fp32: 10 at last</title>"), std::string::npos);
  EXPECT_NE(text("curves.svg").find("<title>resnet20 / int8: 89 at last</title>"), std::string::npos);
  EXPECT_NE(text("accuracy.svg").find(">89; 1 failed<"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text("results.json"))["rows"][1]["failures"][0],
            "resnet20-int8-seed2: caf\ufffd.jpg");
}

TEST_F(StudyOfRuns, ResultsOfOtherRanksAreLeftOut) {
  finish(0, {{100, 0.9}}, 2);
  write();
  EXPECT_NE(text("table.md").find("- resnet20-fp32-seed1: `ranks: 2` then, `ranks: 1` now"), std::string::npos);
}

TEST_F(StudyOfRuns, AnEditedResultOrRecordIsNamed) {
  finish(0, {{100, 0.9}});
  std::ofstream(root_ / plan_.runs[0].name / "result.json") << "{\"top1\": \"high\"}";
  write();
  EXPECT_NE(text("table.md").find("result.json:1: octet did not write `top1`"), std::string::npos) << text("table.md");
  finish(0, {{100, 0.9}});
  for (const char* record :
       {"{\"step\": 1, \"kind\": [], \"top1\": 0.5}", "{\"step\": 1, \"kind\": \"test\", \"top1\": \"a\"}"}) {
    std::ofstream(root_ / plan_.runs[0].name / "metrics.jsonl") << record;
    try {
      write();
      ADD_FAILURE() << "no error for " << record;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("metrics.jsonl:1: octet did not write"), std::string::npos)
          << error.what();
    }
  }
}

// The first metric of a result is the one that a study compares.
TEST_F(StudyOfRuns, OtherTasksHaveOtherMetrics) {
  const fs::path directory = tested(0, {});
  std::ofstream(directory / "result.json") << "{\"score\": 0.371, \"loss\": 1.5, \"ranks\": 1}";
  std::ofstream(directory / "metrics.jsonl") << "{\"step\": 1, \"kind\": \"test\", \"score\": 0.371, \"loss\": 1.5}\n";
  write();
  EXPECT_NE(text("table.md").find("| test score |"), std::string::npos) << text("table.md");
  EXPECT_NE(text("table.md").find("| resnet20 | fp32 | 1/2 | 0.37 |"), std::string::npos) << text("table.md");
  EXPECT_EQ(nlohmann::json::parse(text("results.json"))["rows"][0]["score"][0], 0.371);
}

}  // namespace
}  // namespace octet
