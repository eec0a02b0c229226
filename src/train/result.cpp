#include "src/train/result.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

template <class Fields, class Visit>
void visit_fields(Fields& result, const Visit& visit) {
  visit("epochs", result.epochs);
  visit("steps", result.steps);
  visit("ranks", result.ranks);
  visit("rank_history", result.rank_history);
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

}  // namespace

std::optional<Result> read_result(const std::string& run_directory) {
  const std::string file = run_directory + "/result.json", text = read_if_there(file);
  if (text.empty()) return {};
  Result result;
  std::string at;  // the field being read
  try {
    auto json = nlohmann::ordered_json::parse(text);
    json.get_ref<const nlohmann::ordered_json::object_t&>();  // throws if it is not an object
    visit_fields(result, [&](const char* name, auto& value) {
      at = name;
      const auto field = json.find(name);
      if (field == json.end()) return;
      if constexpr (std::is_same_v<decltype(value), double&>)
        value = field->is_null() ? NAN : field->template get<double>();  // JSON has no NaN
      else
        field->get_to(value);
      json.erase(field);
    });
    for (const auto& [name, value] : json.items())  // the others are metrics
      result.metrics.push_back({at = name, value.is_null() ? NAN : value.get<double>()});
  } catch (const nlohmann::json::exception& error) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + std::min(text.find('"' + at + '"'), text.size()), '\n');
    throw UsageError(__FILE__, __LINE__, say(file, ":", line, ": octet did not write `", at, "`: ", error.what()),
                     "restore the file, or move it away and run octet train --resume, which writes it again");
  }
  return result;
}

void write_result(const std::string& run_directory, const Result& result) {
  nlohmann::ordered_json json;
  for (const Scalar& metric : result.metrics) json[metric.name] = metric.value;
  visit_fields(result, [&](const char* name, const auto& value) { json[name] = value; });
  write_durably(run_directory + "/result.json", json.dump(2) + "\n");
}

}  // namespace octet
