#include "src/train/result.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"

namespace octet {
namespace {

template <class Fields, class Visit>
void visit_fields(Fields& result, const Visit& visit) {
  visit("epochs", result.epochs);
  visit("steps", result.steps);
  visit("ranks", result.ranks);
  visit("images", result.images);
  visit("images_per_epoch", result.images_per_epoch);
  visit("backend", result.backend);
  visit("isa", result.isa);
  visit("threads", result.threads);
  visit("policy", result.policy);
  visit("images_per_second", result.images_per_second);
  visit("wall_seconds", result.wall_seconds);
  visit("arena_bytes", result.arena_bytes);
  visit("peak_memory_bytes", result.peak_memory_bytes);
  visit("wire_bytes_per_step", result.wire_bytes_per_step);
  visit("weights_sha256", result.weights_sha256);
  visit("data", result.data);
  visit("commit", result.commit);
}

bool is_field(const std::string& name) {
  const Result any;
  bool found = false;
  visit_fields(any, [&](const char* field, const auto&) { found = found || name == field; });
  return found;
}

}  // namespace

double Result::figure(const std::string& name) const {
  for (const Scalar& figure : figures)
    if (figure.name == name) return figure.value;
  return std::nan("");
}

std::optional<Result> read_result(const std::string& run_directory) {
  std::ifstream stream(run_directory + "/result.json");
  const auto json = nlohmann::ordered_json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const auto number = [](const nlohmann::ordered_json& value) {
    return value.is_null() ? std::nan("") : value.get<double>();  // JSON has no NaN
  };
  Result result;
  try {
    visit_fields(result, [&](const char* name, auto& value) {
      const auto field = json.find(name);
      if (field == json.end()) return;
      if constexpr (std::is_floating_point_v<std::remove_reference_t<decltype(value)>>)
        value = number(*field);
      else
        field->get_to(value);
    });
    for (const auto& [name, value] : json.items())
      if (!is_field(name)) result.figures.push_back({name, number(value)});
  } catch (const nlohmann::json::exception&) {  // not of ours
    return {};
  }
  return result;
}

void write_result(const std::string& run_directory, const Result& result) {
  nlohmann::ordered_json json;
  for (const Scalar& figure : result.figures) json[figure.name] = figure.value;
  visit_fields(result, [&](const char* name, const auto& value) { json[name] = value; });
  write_durably(run_directory + "/result.json", json.dump(2) + "\n");
}

}  // namespace octet
