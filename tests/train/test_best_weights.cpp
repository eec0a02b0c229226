#include <gtest/gtest.h>

#include <cmath>

#include "kernels/base/durable_file.h"
#include "src/run/best_weights.h"
#include "src/weights/class_names.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

class Best : public ::testing::Test {
 protected:
  // Keeps the weights of an evaluation if it is the best, as a training does.
  bool evaluated(BestWeights& best, int64_t epoch, double top1) {
    const Scalars figures = {{"top1", top1}, {"loss", NAN}};
    if (!best.exceeded_by(figures)) return false;
    values[0] = static_cast<float>(epoch);
    const std::vector<NamedTensor> weights = {{"weight", {2}, values}};
    best.replace({epoch, 100 * epoch, figures}, weights, {{"commit", "abc"}});
    return true;
  }
  float kept() const { return SafetensorsFile::open(path()).floats("weight")[0]; }
  std::string path() const { return directory / "best.safetensors"; }

  TemporaryDirectory directory;
  std::vector<float> values = {0, 1};
};

TEST_F(Best, OfEqualEvaluationsTheEarlierStays) {
  BestWeights best(directory.path(), false);
  EXPECT_FALSE(best.evaluation());
  EXPECT_TRUE(evaluated(best, 1, 0));  // any figure is better than none
  EXPECT_TRUE(evaluated(best, 2, 0.5));
  EXPECT_FALSE(evaluated(best, 3, 0.25));
  EXPECT_FALSE(evaluated(best, 4, 0.5));
  EXPECT_FALSE(evaluated(best, 5, NAN));
  EXPECT_EQ(kept(), 2);
  ASSERT_TRUE(best.evaluation());
  EXPECT_EQ(best.evaluation()->epoch, 2);
  EXPECT_EQ(best.evaluation()->step, 200);
  EXPECT_TRUE(evaluated(best, 6, std::nextafter(0.5, 1)));
  EXPECT_EQ(kept(), 6);
}

TEST_F(Best, AResumedRunGoesOnWithIt) {
  BestWeights before(directory.path(), false);
  EXPECT_TRUE(evaluated(before, 3, 0.5));
  BestWeights best(directory.path(), true);
  ASSERT_TRUE(best.evaluation());
  EXPECT_EQ(best.evaluation()->epoch, 3);
  EXPECT_EQ(best.evaluation()->step, 300);
  ASSERT_EQ(best.evaluation()->figures.size(), 2u);
  EXPECT_EQ(best.evaluation()->figures[0].name, "top1");
  EXPECT_EQ(best.evaluation()->figures[0].value, 0.5);
  EXPECT_TRUE(std::isnan(best.evaluation()->figures[1].value));
  EXPECT_FALSE(evaluated(best, 4, 0.5));
  EXPECT_EQ(SafetensorsFile::open(path()).metadata().at("commit"), "abc");

  EXPECT_FALSE(BestWeights(directory.path(), false).evaluation());  // a new run begins without
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(Best, ADamagedFileIsReplaced) {
  BestWeights before(directory.path(), false);
  EXPECT_TRUE(evaluated(before, 3, 0.5));
  const std::string whole = read_file(path());
  write_file(path(), whole.substr(0, whole.size() - 1));
  EXPECT_FALSE(BestWeights(directory.path(), true).evaluation());
  write_safetensors(path(), {}, {{"epoch", "many"}, {"step", "300"}, {"figures", R"({"top1":0.5})"}});
  EXPECT_FALSE(BestWeights(directory.path(), true).evaluation());
  write_safetensors(path(), {}, {{"epoch", "3"}, {"step", "300"}, {"figures", "{}"}});
  BestWeights best(directory.path(), true);
  EXPECT_FALSE(best.evaluation());
  EXPECT_TRUE(evaluated(best, 4, 0.25));
  EXPECT_EQ(kept(), 4);
}

TEST_F(Best, StaysWhereTheNextCannotBeWritten) {
  BestWeights best(directory.path(), false);
  EXPECT_TRUE(evaluated(best, 1, 0.5));
  std::filesystem::create_directory(path() + ".tmp");  // in the way of the new file
  const Scalars better = {{"top1", 0.75}};
  try {
    best.replace({2, 200, better}, {}, {});
    ADD_FAILURE() << "no error";
  } catch (const FileError& error) {
    EXPECT_PART(error.what(), "best.safetensors");
  }
  EXPECT_EQ(kept(), 1);
  EXPECT_EQ(best.evaluation()->epoch, 1);
  EXPECT_TRUE(best.exceeded_by(better));
}

TEST_F(Best, WeightsNameTheirClasses) {
  const Classes classes = {.names = {"cat", "\"dog\", \n"}, .category_ids = {3, 7}};
  std::map<std::string, std::string> metadata;
  add_classes(classes, metadata);
  write_safetensors(path(), {}, metadata);
  const Classes read = read_classes(SafetensorsFile::open(path()), path());
  EXPECT_EQ(read.names, classes.names);
  EXPECT_EQ(read.category_ids, classes.category_ids);
  write_safetensors(path(), {}, {});
  EXPECT_TRUE(read_classes(SafetensorsFile::open(path()), path()).names.empty());
  for (const auto& wrong : {std::map<std::string, std::string>{{"classes", "{"}},
                            {{"classes", "[1]"}},
                            {{"classes", "[\"cat\"]"}, {"category_ids", "[1,2]"}}}) {
    write_safetensors(path(), {}, wrong);
    EXPECT_PART(refusal([&] { read_classes(SafetensorsFile::open(path()), path()); }), "best.safetensors");
  }
}

TEST(BestWeights, AreSoundIfTheyHaveLearnt) {
  const auto sound = [](Scalars figures, double first_loss) {
    return is_sound({1, 8, std::move(figures)}, first_loss);
  };
  EXPECT_TRUE(sound({{"top1", 0.9}, {"loss", 0.3}}, 2.3));
  EXPECT_FALSE(sound({{"top1", 0.1}, {"loss", 1e12}}, 2.3));
  EXPECT_FALSE(sound({{"top1", 0.1}, {"loss", NAN}}, 2.3));
  EXPECT_FALSE(sound({{"top1", 0.9}, {"loss", 0.3}}, NAN)) << "nothing is known of the first step";
  EXPECT_TRUE(sound({{"mAP", 0.2}}, 5));
  EXPECT_FALSE(sound({{"mAP", 0}}, 5));
}

}  // namespace
}  // namespace octet
