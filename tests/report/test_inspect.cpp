// The page of a detector's run, from its files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/config/config.h"
#include "src/data/detections.h"
#include "src/data/loader.h"
#include "src/report/inspect.h"
#include "src/train/result.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class DetectorPage : public testing::Test {
 protected:
  DetectorPage() : folder_(fs::temp_directory_path() / say("octet-inspect-", getpid())) {
    fs::create_directories(folder_);
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
  ~DetectorPage() override { fs::remove_all(folder_); }
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

TEST_F(DetectorPage, ShowsClassesCurvesAndImages) {
  const Annotations truth = test_annotations(config_);
  std::vector<Detection> found;  // all objects of the first ten images
  for (int64_t image = 0; image < 10; ++image)
    for (const Object& object : truth.images[static_cast<size_t>(image)].objects)
      found.push_back({.image = image, .label = object.label, .score = 0.9, .box = object.box});
  write_detections((folder_ / "detections.json").string(), truth, found);
  const std::string html = page();
  EXPECT_EQ(count(html, "<td>star</td>"), 1);
  EXPECT_EQ(count(html, "star, AP "), 2) << "a curve and its name";
  EXPECT_EQ(count(html, "<figure"), 16);
  EXPECT_EQ(count(html, "data:image/jpeg;base64,/9j/"), 32);  // JPEG's first bytes
  EXPECT_NE(html.find("Parts of the loss"), html.npos);
  EXPECT_NE(html.find("62.50 %</b><span>best test AP, epoch 7"), html.npos);
  EXPECT_EQ(count(html, "<img "), count(html, "src=\"data:"));  // no other file is needed
}

TEST_F(DetectorPage, SaysWhatIsMissingWithoutTheData) {
  write("detections.json", "[]\n");
  config_.data.name = "coco";
  config_.data.root = (folder_ / "a<b").string();
  write("config.yaml", to_yaml(config_));
  const std::string html = page();
  EXPECT_NE(html.find("<td>&lt;b&gt;</td><td>25.0 %</td>"), html.npos);
  EXPECT_NE(html.find("The test set of this run cannot be read"), html.npos);
  EXPECT_NE(html.find("a&lt;b"), html.npos);
  EXPECT_EQ(html.find("a<b"), html.npos);
  EXPECT_EQ(count(html, "<figure"), 0);
}

TEST_F(DetectorPage, OfAnotherRunHasNoSuchSections) {
  EXPECT_EQ(page().find("<h2>Classes</h2>"), std::string::npos);
}

}  // namespace
}  // namespace octet
