// Precision, recall and F1 of classes, and how they are shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/tasks/classification/class_report.h"
#include "src/tasks/table_text.h"

namespace octet {
namespace {

ClassAnswers answers(std::vector<std::string> classes, const std::vector<int32_t>& labels,
                     const std::vector<int32_t>& predicted) {
  ClassAnswers all{.images = int64_t(labels.size()), .classes = std::move(classes), .files = {}, .answers = {}};
  for (size_t i = 0; i < labels.size(); ++i)
    all.answers.push_back({.image = int64_t(i), .label = labels[i], .predicted = predicted[i], .probability = 1});
  return all;
}

void expect_figures(const ClassFigures& found, double precision, double recall, double f1) {
  EXPECT_DOUBLE_EQ(found.precision, precision);
  EXPECT_DOUBLE_EQ(found.recall, recall);
  EXPECT_DOUBLE_EQ(found.f1, f1);
}

// Four cats, of which three are found; two dogs, of which one is; one eel is made of a dog; no fish anywhere.
ClassAnswers pets() { return answers({"cat", "dog", "eel", "fish"}, {0, 0, 0, 0, 1, 1}, {0, 0, 0, 1, 1, 2}); }

TEST(ClassReport, HasFiguresOfEachClassAndTheirMeans) {
  const ClassReport report = class_report(pets());
  ASSERT_EQ(report.classes.size(), 4u);
  expect_figures(report.classes[0], 1, 0.75, 6.0 / 7);
  expect_figures(report.classes[1], 0.5, 0.5, 0.5);
  expect_figures(report.classes[2], 0, 0, 0);  // predicted, without images
  expect_figures(report.classes[3], 0, 0, 0);  // neither
  EXPECT_EQ(report.classes[0].support, 4);
  EXPECT_EQ(report.classes[0].predicted, 3);
  EXPECT_EQ(report.classes[0].right, 3);
  EXPECT_EQ(report.classes[2].predicted, 1);
  EXPECT_DOUBLE_EQ(report.accuracy, 4.0 / 6);
  expect_figures(report.macro, 1.5 / 4, 1.25 / 4, (6.0 / 7 + 0.5) / 4);
  expect_figures(report.weighted, (4 * 1 + 2 * 0.5) / 6, (4 * 0.75 + 2 * 0.5) / 6, (4 * 6.0 / 7 + 2 * 0.5) / 6);
  EXPECT_EQ(report.counts.size(), 4u);
  EXPECT_EQ(report.counts.at({0, 1}), 1);
  EXPECT_EQ(report.counts.at({1, 2}), 1);
}

TEST(ClassReport, OfNothingIsZero) {
  const ClassReport report = class_report(answers({"cat", "dog"}, {}, {}));
  EXPECT_EQ(report.accuracy, 0);
  expect_figures(report.macro, 0, 0, 0);
  expect_figures(report.weighted, 0, 0, 0);
}

TEST(ClassReport, NamesClassesByTheirNumbers) {
  const ClassReport report = class_report(answers({}, {0, 2}, {0, 1}));
  ASSERT_EQ(report.classes.size(), 3u);
  EXPECT_EQ(report.classes[2].name, "2");
}

TEST(ClassReport, EqualsScikitLearn) {
  std::ifstream file(OCTET_SOURCE_DIR "/tests/golden/class_figures.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 5u);
  constexpr double rounding = 1e-12;  // sums of at most 40 shares in another order
  for (const auto& golden : cases) {
    std::vector<std::string> names(golden.at("classes").get<size_t>(), "class");
    const ClassReport report = class_report(answers(names, golden.at("label").get<std::vector<int32_t>>(),
                                                    golden.at("predicted").get<std::vector<int32_t>>()));
    EXPECT_NEAR(report.accuracy, golden.at("accuracy").get<double>(), rounding);
    const auto rows = golden.at("figures").get<std::vector<std::vector<double>>>();
    ASSERT_EQ(rows.size(), names.size() + 2);
    for (size_t i = 0; i < rows.size(); ++i) {
      const ClassFigures& found = i < names.size()    ? report.classes[i]
                                  : i == names.size() ? report.macro
                                                      : report.weighted;
      EXPECT_NEAR(found.precision, rows[i][0], rounding) << i;
      EXPECT_NEAR(found.recall, rows[i][1], rounding) << i;
      EXPECT_NEAR(found.f1, rows[i][2], rounding) << i;
      EXPECT_EQ(i < names.size() ? report.classes[i].support : report.images, int64_t(rows[i][3])) << i;
    }
  }
}

TEST(ClassReport, IsATableAnObjectAndLines) {
  const ClassReport report = class_report(pets());
  EXPECT_EQ(class_table(report),
            "class             precision  recall      F1  support\n"
            "cat                  1.0000  0.7500  0.8571        4\n"
            "dog                  0.5000  0.5000  0.5000        2\n"
            "eel                  0.0000  0.0000  0.0000        0\n"
            "fish                 0.0000  0.0000  0.0000        0\n"
            "\n"
            "accuracy                             0.6667        6\n"
            "macro average        0.3750  0.3125  0.3393        6\n"
            "weighted average     0.8333  0.6667  0.7381        6\n"
            "2 of 4 classes have no images; each counts as 0 in the macro average\n");
  const auto object = nlohmann::json::parse(class_json(report));
  EXPECT_EQ(object.at("classes").at(1).dump(),
            R"({"F1":0.5,"class":"dog","precision":0.5,"predicted":2,"recall":0.5,"right":1,"support":2})");
  EXPECT_EQ(object.at("confusion").dump(), R"({"cat":{"cat":3,"dog":1},"dog":{"dog":1,"eel":1}})");
  EXPECT_EQ(object.at("macro_average").at("precision"), 0.375);
  EXPECT_EQ(class_csv(report),
            "class,precision,recall,F1,support,predicted,right\r\n"
            "cat,1.000000,0.750000,0.857143,4,3,3\r\n"
            "dog,0.500000,0.500000,0.500000,2,2,1\r\n"
            "eel,0.000000,0.000000,0.000000,0,1,0\r\n"
            "fish,0.000000,0.000000,0.000000,0,0,0\r\n");
}

size_t lines_in(const std::string& text) { return size_t(std::ranges::count(text, '\n')); }

// Class i has i + 1 images, of which one is wrong: F1 rises with the class.
TEST(ClassReport, ShowsTheWorstAndTheBestOfManyClasses) {
  std::vector<std::string> names;
  std::vector<int32_t> labels, predicted;
  for (int32_t label = 0; label < 31; ++label) {
    names.push_back("class " + std::string(60, 'x') + std::to_string(label));
    for (int32_t i = 0; i <= label; ++i) labels.push_back(label), predicted.push_back(i == 0 ? 31 : label);
  }
  names.push_back("never");
  const std::string table = class_table(class_report(answers(names, labels, predicted)));
  EXPECT_EQ(lines_in(table), 1u + 15 + 1 + 1 + 3 + 2);
  EXPECT_LT(table.find("xx0 "), table.find("xx9 "));
  EXPECT_LT(table.find("xx9 "), table.find("\n...\n"));
  EXPECT_LT(table.find("\n...\n"), table.find("xx26 "));
  EXPECT_NE(table.find("xx30 "), table.npos);
  EXPECT_EQ(table.find("xx10 "), table.npos);
  EXPECT_EQ(table.find("never"), table.npos);
  EXPECT_NE(table.find("15 of 32 classes are shown, the least F1 first; --csv FILE writes all of them\n"), table.npos);
  std::istringstream stream(table);
  for (std::string line; std::getline(stream, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(TableText, ShortensLongNamesByCharacters) {
  EXPECT_EQ(in_table("cat", 10), "cat");
  EXPECT_EQ(in_table("abcdefghijk", 10), "abc...hijk");
  EXPECT_EQ(in_table("\u00e4\u00f6\u00fcdefghij\u00df", 10), "\u00e4\u00f6\u00fc...hij\u00df");
  EXPECT_EQ(in_table("a\nb", 10), "a\\x0ab");
  EXPECT_EQ(widest({"a", "\u00e4\u00f6\u00fc"}), 3u);
}

}  // namespace
}  // namespace octet
