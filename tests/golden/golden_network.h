// Networks with the weights and images of a golden file, and the comparison of their gradients with those of the file.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"
#include "tests/graph/harness.h"

namespace octet::golden {

inline nlohmann::json read(const std::string& file) {
  nlohmann::json golden;
  std::ifstream(std::string(OCTET_SOURCE_DIR) + "/tests/golden/" + file) >> golden;
  return golden;
}

// Element k of PyTorch's OIHW order in our OHWI order.
inline size_t from_oihw(size_t k, const Shape& s) {
  const size_t w = k % size_t(s.w), h = k / size_t(s.w) % size_t(s.h), i = k / size_t(s.w * s.h) % size_t(s.c),
               o = k / size_t(s.w * s.h * s.c);
  return ((o * size_t(s.h) + h) * size_t(s.w) + w) * size_t(s.c) + i;
}

// || got - want || / (|| want || + floor) over the sampled elements.
inline double deviation(const nlohmann::json& samples, const float* values, const Shape& shape, bool weight,
                        double floor) {
  double difference = 0, norm = 0;
  const size_t elements = size_t(shape.elements());
  for (size_t k = 0; k < samples.size(); ++k) {
    const auto at = size_t(sample_index(int64_t(k), int64_t(elements)));
    const double want = samples[k].get<double>(), got = values[weight ? from_oihw(at, shape) : at];
    difference += (got - want) * (got - want);
    norm += want * want;
  }
  return std::sqrt(difference) / (std::sqrt(norm) + floor);
}

// Gives the network the frozen tensors of the file, if it has any.
inline void fill_frozen(Harness& h, const nlohmann::json& golden) {
  auto salt = uint32_t(golden["parameters"].size());
  for (const std::string name : golden.value("frozen", nlohmann::json::array())) {
    Tensor tensor;
    bool is_matrix = false;
    for (const Param& param : h.params())
      if (param.name == name) tensor = param.master, is_matrix = is_weight(param.kind);
    for (const Statistic& statistic : h.step->parameters().statistics())
      if (statistic.name == name) tensor = statistic.tensor;
    ASSERT_TRUE(tensor) << name;
    const Shape& s = tensor.shape;
    for (uint32_t i = 0; i < uint32_t(s.elements()); ++i) {
      if (is_matrix)
        tensor.f32()[from_oihw(i, s)] = weight(i, salt, s.h * s.w * s.c);
      else
        tensor.f32()[i] = name.ends_with("bias") || name.ends_with("mean") ? bias(i, salt) : gamma(i, salt);
    }
    ++salt;
  }
}

// Gives the network the images and weights of the file.
inline void fill(Harness& h, const nlohmann::json& golden) {
  const int64_t batch = golden["batch"], size = golden["image_size"];
  for (size_t n = 0; n < 4; ++n) EXPECT_EQ(value(uint32_t(n), 7), golden["formula_check"][n].get<float>());
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t p = 0; p < size * size; ++p)
        h.images[size_t((n * size * size + p) * 3 + c)] =
            pixel(uint32_t((n * 3 + c) * size * size + p), golden["image_salt"]);
  fill_frozen(h, golden);
  const float shift = golden.value("norm_bias_shift", 0.0f);
  ParamKind previous = ParamKind::conv_weight;
  for (uint32_t salt = 0; salt < golden["parameters"].size(); ++salt) {
    Param& param = h.param(golden["parameters"][salt]["name"]);
    const Shape& s = param.shape;
    const bool of_norm = previous == ParamKind::norm_weight;  // PyTorch puts a norm's bias behind its weight
    previous = param.kind;
    const float factor = golden["parameters"][salt].value("factor", 1.0f);
    for (uint32_t i = 0; i < uint32_t(s.elements()); ++i) {
      if (is_weight(param.kind)) param.master.f32()[from_oihw(i, s)] = weight(i, salt, s.h * s.w * s.c);
      if (param.kind == ParamKind::norm_weight) param.master.f32()[i] = gamma(i, salt);
      if (param.kind == ParamKind::bias) param.master.f32()[i] = bias(i, salt) + (of_norm ? shift : 0);
    }
    for (int64_t i = 0; i < s.elements(); ++i) param.master.f32()[i] *= factor;
  }
}

// Expects every gradient within the relative bound. Returns the worst deviation.
inline double compare_gradients(Harness& h, const nlohmann::json& golden, double bound) {
  double largest = 0, worst = 0;
  for (const auto& parameter : golden["parameters"])
    largest = std::max(largest, parameter["gradient_norm"].get<double>());
  for (const auto& parameter : golden["parameters"]) {
    const Param& param = h.param(parameter["name"]);
    const double share = std::sqrt(double(parameter["gradient"].size()) / double(param.shape.elements()));
    const double error = deviation(parameter["gradient"], param.gradient.f32(), param.shape, is_weight(param.kind),
                                   1e-3 * largest * share);
    EXPECT_LT(error, bound) << param.name;
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace octet::golden
