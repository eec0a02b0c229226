// The pages of runs, from their files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/base/error.h"
#include "src/config/config.h"
#include "src/data/annotations/detections.h"
#include "src/data/loader.h"
#include "src/report/charts/svg.h"
#include "src/report/inspect/inspect.h"
#include "src/run/result.h"
#include "src/tasks/classification/class_answers.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class RunPage : public testing::Test {
 protected:
  RunPage() : folder_(fs::temp_directory_path() / say("octet-inspect-", getpid())) { fs::create_directories(folder_); }
  ~RunPage() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string page() const { return inspect_page(folder_.string()); }
  static int64_t count(const std::string& text, const std::string& part) {
    int64_t found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  }

  fs::path folder_;
  Config config_;
};

TEST_F(RunPage, RunsAreCompared) {
  std::vector<std::string> runs;
  for (const char* name : {"a/run", "b/run", "c"}) {
    runs.push_back((folder_ / name).string());
    fs::create_directories(runs.back());
    config_.train.lr = runs.size() < 3 ? 0.1 : 0.25;
    write(std::string(name) + "/config.yaml", to_yaml(config_));
    write(std::string(name) + "/metrics.jsonl",
          "{\"step\":8,\"kind\":\"epoch\",\"epoch\":1,\"steps\":8,\"seconds\":10,\"loss\":2.5}\n"
          "{\"step\":8,\"kind\":\"test\",\"loss\":2.25,\"top1\":0.5}\n");
    Result result;
    result.metrics = {{"top1", 0.5}};
    result.epochs = 1, result.steps = 8, result.images = 512, result.images_per_epoch = 512;
    if (runs.size() < 3) write_result(runs.back(), result);
  }
  const std::string page = comparison_page(runs);
  EXPECT_NE(page.find("8, not finished"), page.npos);
  EXPECT_NE(page.find(escaped(runs[0])), page.npos) << "runs of one name are told apart by their folders";
  EXPECT_NE(page.find("<tr><td>train.lr</td><td>0.1</td><td>0.1</td><td>0.25</td></tr>"), page.npos);
  EXPECT_EQ(page.find("train.momentum"), page.npos) << "equal in all";
  EXPECT_EQ(count(page, "<svg"), 3) << "loss in training and tests, and top-1";
  EXPECT_THROW(comparison_page({runs[0], (folder_ / "none").string()}), UsageError);
}

class ClassifierPage : public RunPage {
 protected:
  ClassifierPage() {
    config_.data.samples = 512;
    write("config.yaml", to_yaml(config_));
    std::string metrics;
    for (int epoch = 1; epoch <= 9; ++epoch)
      metrics += say("{\"step\":", 8 * epoch, ",\"kind\":\"epoch\",\"epoch\":", epoch,
                     ",\"steps\":8,\"seconds\":10,\"loss\":", 3.0 / epoch, "}\n{\"step\":", 8 * epoch,
                     ",\"kind\":\"test\",\"loss\":", epoch == 1 ? 562 : 4.0 / epoch, ",\"top1\":0.5}\n");
    write("metrics.jsonl", metrics);
    Result result;
    result.metrics = {{"top1", 0.5}};
    result.epochs = 9, result.steps = 72, result.images = 72 * 64, result.images_per_epoch = 8 * 64;
    result.best = {{.epoch = 7, .step = 56, .figures = {{"top1", 0.625}}}};
    write_result(folder_.string(), result);
  }
  // Each image is taken for the next class, but for every second one.
  void answer(const Datasets& data, bool wrong_labels = false) const {
    ClassAnswers all{.step = 72, .images = data.test->size(), .classes = {}, .files = {}, .answers = {}};
    for (int label = 0; label < 10; ++label) all.classes.push_back("<" + std::to_string(label) + ">");
    for (int64_t image = 0; image < all.images; ++image) {
      const int32_t label = (data.test->label(image) + (wrong_labels ? 1 : 0)) % 10;
      all.answers.push_back({image, label, image % 2 == 0 ? label : (label + 1) % 10, 0.75});
    }
    write_answers(folder_.string(), all);
  }
};

TEST_F(ClassifierPage, CountsEpochs) {
  const std::string html = page();
  EXPECT_NE(html.find("<b>shapes</b><span>data set"), html.npos);
  EXPECT_NE(html.find("<b>10</b><span>classes"), html.npos);
  EXPECT_NE(html.find("<b>9</b><span>epochs"), html.npos);
  EXPECT_NE(html.find("<b>1 min 30 s</b><span>training time"), html.npos);
  EXPECT_NE(html.find("training, mean of an epoch, epoch 3: 1<"), html.npos);
  EXPECT_NE(html.find(">best</text>"), html.npos);
  EXPECT_NE(html.find("test, epoch 1: 562"), html.npos);
  EXPECT_EQ(html.find(">400<"), html.npos) << "one high loss does not stretch the axis";
  EXPECT_NE(html.find("so its loss is high"), html.npos);
  EXPECT_EQ(html.find("<h2>Classes</h2>"), html.npos);
}

TEST_F(ClassifierPage, SaysWhenWhereAndHowTheRunWasTrained) {
  write("config.yaml", "# octet train 'a <b>.yaml'\n" + to_yaml(config_));
  write("metrics.jsonl",
        "{\"step\":1,\"kind\":\"train\",\"loss\":3,\"time\":0.5,\"host\":\"a\"}\n"
        "{\"step\":2,\"kind\":\"train\",\"loss\":2,\"time\":86460,\"host\":\"b\"}\n"
        "{\"step\":2,\"kind\":\"epoch\",\"epoch\":1,\"steps\":2,\"seconds\":4.25,\"loss\":2.5,\"learning_rate\":0.1,"
        "\"time\":86460,\"host\":\"b\"}\n");
  const std::string html = page();
  EXPECT_NE(html.find("<dt>begun</dt><dd>1970-01-01 00:00 UTC</dd>"), html.npos);
  EXPECT_NE(html.find("<dt>last record</dt><dd>1970-01-02 00:01 UTC</dd>"), html.npos);
  EXPECT_NE(html.find("<dt>hosts</dt><dd>a, b</dd>"), html.npos);
  EXPECT_NE(html.find("<dt>command</dt><dd>octet train 'a &lt;b&gt;.yaml'</dd>"), html.npos);
  EXPECT_NE(html.find("at the end of an epoch, epoch 0.25: 0.1<"), html.npos);
  EXPECT_NE(html.find("<b>4.2 s</b><span>training time"), html.npos);
}

TEST_F(ClassifierPage, ShowsClassesAndMistakes) {
  answer(open_datasets(config_, false));
  const std::string html = page();
  EXPECT_NE(html.find("Confusion matrix"), html.npos);
  EXPECT_NE(html.find("&lt;3&gt; taken for &lt;4&gt;: "), html.npos);
  EXPECT_EQ(count(html, " alt=\"image "), 24);
  EXPECT_EQ(count(html, "data:image/png;base64,iVBORw0KGgo"), 24);  // PNG's first bytes
  EXPECT_EQ(count(html, "<img "), count(html, "src=\"data:"));
  EXPECT_NE(html.find("75.0\u00a0%<br>is <i>&lt;"), html.npos);
}

TEST_F(ClassifierPage, SaysWhyThereAreNoPictures) {
  const Datasets data = open_datasets(config_, false);
  answer(data, true);
  EXPECT_NE(page().find("the images or their labels are others than in the training"), std::string::npos);
  answer(data);
  config_.data.name = "image_folder";
  config_.data.root = (folder_ / "a<b").string();
  write("config.yaml", to_yaml(config_));
  std::string html = page();
  EXPECT_NE(html.find("The test set of this run cannot be read, so there are no pictures"), html.npos);
  EXPECT_EQ(html.find("a<b"), html.npos);
  html = inspect_page(folder_.string(), {"data.name=shapes"});
  EXPECT_EQ(count(html, " alt=\"image "), 24) << "the data is found where the override says";
}

TEST_F(ClassifierPage, RefusesDamagedFiles) {
  const auto refused = [&](const std::string& file, const std::string& text) -> std::string {
    write(file, text);
    try {
      page();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_NE(refused("clips.jsonl", "{\"step\":1,\"layer\":\"conv1\",\"clip\":\"wide\"}\n")
                .find("clips.jsonl:1: octet did not write this record: type must be number, but is string"),
            std::string::npos);
  fs::remove(folder_ / "clips.jsonl");
  EXPECT_NE(refused("evaluation.json", "{\"step\": 3}").find("evaluation.json: octet did not write this file"),
            std::string::npos);
  fs::remove(folder_ / "evaluation.json");
  EXPECT_NE(refused("result.json", "").find("result.json:1: octet did not write this file"), std::string::npos);
  fs::remove(folder_ / "result.json");
  EXPECT_NE(page().find("<b>72</b><span>steps so far"), std::string::npos);
}

class DetectorPage : public RunPage {
 protected:
  DetectorPage() {
    config_.data.name = "shapes_detection";
    config_.data.samples = 160;
    config_.data.batch = 8;
    write("config.yaml", to_yaml(config_));
    write("metrics.jsonl",
          "{\"step\":1,\"kind\":\"train\",\"loss\":3,\"loss_class\":2,\"loss_box\":1}\n"
          "{\"step\":2,\"kind\":\"train\",\"loss\":2,\"loss_class\":1.5,\"loss_box\":0.5}\n");
    Result result;
    result.metrics = {{"AP", 0.5}};
    result.by_class = {{"<b>", 0.25}};
    result.best = {{.epoch = 7, .step = 20, .figures = {{"AP", 0.625}}}};
    write_result(folder_.string(), result);
  }
};

TEST_F(DetectorPage, ShowsClassesCurvesAndImages) {
  const Annotations truth = test_annotations(config_);
  std::vector<Detection> found;  // all objects of the first ten images
  for (int64_t image = 0; image < 10; ++image)
    for (const Object& object : truth.images[static_cast<size_t>(image)].objects)
      found.push_back({.image = image, .label = object.label, .score = 0.9, .box = object.box});
  write_detections((folder_ / "detections.json").string(), truth, found);
  const std::string html = page();
  EXPECT_EQ(count(html, "<td>star</td>"), 1);
  EXPECT_EQ(count(html, "star, AP50 "), 2) << "a curve and its name";
  EXPECT_EQ(count(html, "<figure"), 16);
  EXPECT_EQ(count(html, "data:image/jpeg;base64,/9j/"), 32);  // JPEG's first bytes
  EXPECT_NE(html.find("Parts of the loss"), html.npos);
  EXPECT_NE(html.find("62.50\u00a0%</b><span>best test AP, epoch 7"), html.npos);
  EXPECT_EQ(count(html, "<img "), count(html, "src=\"data:"));  // no other file is needed
}

TEST_F(DetectorPage, SaysWhatIsMissingWithoutTheData) {
  write("detections.json", "[]\n");
  config_.data.name = "coco";
  config_.data.root = (folder_ / "a<b").string();
  write("config.yaml", to_yaml(config_));
  const std::string html = page();
  EXPECT_NE(html.find("<td>&lt;b&gt;</td><td>25.0\u00a0%</td>"), html.npos);
  EXPECT_NE(html.find("The test set of this run cannot be read"), html.npos);
  EXPECT_NE(html.find("a&lt;b"), html.npos);
  EXPECT_EQ(html.find("a<b"), html.npos);
  EXPECT_EQ(count(html, "<figure"), 0);
}

TEST_F(DetectorPage, OfAnotherRunHasNoSuchSections) { EXPECT_EQ(page().find("<h2>Classes</h2>"), std::string::npos); }

}  // namespace
}  // namespace octet
