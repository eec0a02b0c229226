// What tests of detection share: the golden file and the inputs that belong to it (tests/golden/make_detection_operations.py).
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/shared/boxes.h"
#include "tests/golden/golden.h"

namespace octet::test {

inline const nlohmann::json& detection_golden() {
  static const auto golden =
      nlohmann::json::parse(std::ifstream(OCTET_SOURCE_DIR "/tests/golden/detection_operations.json"), nullptr, true, true);
  return golden;
}
inline std::vector<float> golden_values(const nlohmann::json& numbers) { return numbers.get<std::vector<float>>(); }

inline std::vector<float> values(int64_t count, uint32_t salt, float factor = 1) {
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(factor * octet::golden::value(static_cast<uint32_t>(i), salt));
  return result;
}
inline std::vector<Box> make_boxes(int64_t count, uint32_t salt) {
  std::vector<Box> boxes;
  const std::vector<float> u = values(4 * count, salt);
  for (int64_t i = 0; i < count; ++i) {
    const float* const own = u.data() + 4 * i;
    const float x = (own[0] + 0.5f) * 128, y = (own[1] + 0.5f) * 96;
    boxes.push_back({x, y, x + (4 + 60 * (own[2] + 0.5f)), y + (4 + 60 * (own[3] + 0.5f))});
  }
  return boxes;
}
inline std::vector<float> corners(std::span<const Box> boxes) {
  std::vector<float> numbers;
  for (const Box& box : boxes) numbers.insert(numbers.end(), {box.x1, box.y1, box.x2, box.y2});
  return numbers;
}

// Each difference is at most the tolerance, relative to the number where it is larger than 1.
inline void expect_near(std::span<const float> got, std::span<const float> want, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::fabs(double{want[i]}))) << what << ", number " << i;
}

}  // namespace octet::test
