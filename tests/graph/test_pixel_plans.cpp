// Plans that read images as bytes.
#include <cstring>

#include "src/normalization.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

constexpr int64_t pixel_samples = 4, pixel_side = 16;
const PixelScale pixel_scale = of_photographs.pixels();

Config pixel_config(const std::string& policy) {
  Config config;
  config.policy.name = policy;
  config.model.name = "resnet20";
  config.train.lr = 0.05;
  return config;
}

// Random pixels, some of which do not exist.
std::vector<uint8_t> some_pixels() {
  std::vector<uint8_t> bytes(pixel_samples * pixel_side * pixel_side * pixel_channels);
  for (size_t i = 0; i < bytes.size(); i += pixel_channels) {
    const Random128 random = philox(i, 3, 3, 3);
    if (random.word[3] % 8 == 0) continue;
    for (size_t c = 0; c < 3; ++c) bytes[i + c] = uint8_t(random.word[c]);
    bytes[i + 3] = 255;
  }
  return bytes;
}

// What three steps and an evaluation make of the same images, given as bytes or as real numbers.
struct PixelOutcome {
  std::vector<float> weights;
  double loss = 0;
  bool operator==(const PixelOutcome&) const = default;
};
PixelOutcome pixel_outcome(const Config& config, bool as_bytes, Isa isa = best_isa(), int threads = 2) {
  const RealConvolution real = make_policy(config)->traits().real_convolution;
  PlanOptions options{.storage = storage_of(config), .poison = true};
  if (as_bytes) options.pixels = pixel_scale;
  Harness harness(config, make_cpu_backend({isa, threads, real}), pixel_samples, pixel_side, options);
  const std::vector<uint8_t> bytes = some_pixels();
  std::vector<float> numbers(size_t(pixel_samples * pixel_side * pixel_side * 3));
  normalize_pixels(pixel_scale, bytes.data(), pixel_samples * pixel_side * pixel_side, numbers.data());
  Batch batch = harness.batch_of(0);
  batch.images = as_bytes ? static_cast<const void*>(bytes.data()) : numbers.data();
  for (batch.step = 0; batch.step < 3; ++batch.step) harness.run(batch);
  harness.step->begin_evaluation();
  const Metric loss = harness.step->evaluate(batch).metrics.front();
  return {harness.weights(), loss.sum / loss.count};
}

TEST(PixelPlans, GiveTheFirstLayerTheBytesAsTheyAre) {
  PlanOptions options;
  options.pixels = pixel_scale;
  const Harness harness(pixel_config("unified_int8"), make_cpu_backend({best_isa(), 1}), pixel_samples, pixel_side,
                        options);
  const Edge images = harness.plan().graph().nodes().front()->output();
  const Layout& layout = harness.plan().layout();
  EXPECT_EQ(layout.pixel_edge, images.id);
  const Tensor& values = layout.memory.values[size_t(images.id)].values;
  EXPECT_EQ(values.dtype, DType::u8);
  EXPECT_EQ(values.shape, (Shape{pixel_samples, pixel_side, pixel_side, pixel_channels}));
  EXPECT_EQ(layout.value_block[size_t(images.id)], Layout::no_block);
  EXPECT_EQ(harness.plan().image_bytes(), values.bytes());
}

TEST(PixelPlans, HaveTheSameBitsOnEveryInstructionSet) {
  Config config = pixel_config("unified_int8");
  const PixelOutcome wanted = pixel_outcome(config, true);
  for (const Isa isa : available_isas()) EXPECT_EQ(pixel_outcome(config, true, isa, 1), wanted) << name_of(isa);
}

// The rounding errors of the first layer are those of a sum in f32, but they move a few codes.
TEST(PixelPlans, AreNearThoseOfRealNumbers) {
  const Config config = pixel_config("unified_int8");
  EXPECT_NEAR(pixel_outcome(config, true).loss, pixel_outcome(config, false).loss, 0.1);
}

// A quantized first layer, and policies with other convolutions, read the same numbers as before.
TEST(PixelPlans, OfOtherPoliciesNormalizeTheBytes) {
  Config quantized = pixel_config("unified_int8");
  quantized.policy.quantize_first = true;
  for (const Config& config : {quantized, pixel_config("fp32"), pixel_config("dorefa")}) {
    SCOPED_TRACE(config.policy.name);
    EXPECT_EQ(pixel_outcome(config, true), pixel_outcome(config, false));
  }
}

}  // namespace
}  // namespace octet
