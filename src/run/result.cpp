#include "src/run/result.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/config/foreign_json.h"
#include "src/config/json_error.h"

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

using Json = nlohmann::ordered_json;

Json json_of(const Scalars& figures) {
  Json json = Json::object();
  for (const Scalar& figure : figures) json[figure.name] = figure.value;
  return json;
}

template <class Value>
constexpr bool is_optional = false;
template <class Value>
constexpr bool is_optional<std::optional<Value>> = true;

double number_of(const Json& value) { return value.is_null() ? NAN : value.get<double>(); }  // JSON has no NaN

// A whole number is a count, in whatever type the result keeps it.
template <class Value>
void read_field(const Json& field, const std::string& name, Value& value) {
  if constexpr (std::is_integral_v<Value>)
    value = static_cast<Value>(count_in(field, name));
  else if constexpr (!is_optional<Value>)
    field.get_to(value);
  else if (!field.is_null())  // as an infinite speed is written
    read_field(field, name, value.emplace());
}

BestEvaluation best_of(Json json) {
  BestEvaluation best;
  best.epoch = count_in(json.at("epoch"), "the best epoch");
  best.step = count_in(json.at("step"), "the best step");
  json.erase("epoch");
  json.erase("step");
  for (const auto& [name, value] : json.items()) best.figures.push_back({name, number_of(value)});
  REQUIRE_USAGE(!best.figures.empty(), "move the file away", "`best` of a result has no figure");
  return best;
}

}  // namespace

std::optional<Result> read_result(const std::string& run_directory) {
  const std::string file = run_directory + "/result.json", text = read_if_there(file, 1 << 22);
  if (!std::filesystem::exists(file)) return {};
  return parse_result(text, file);
}

Result parse_result(const std::string& text, const std::string& file) {
  Result result;
  std::string at;  // the field being read
  try {
    auto json = parse_foreign_json(text, file);
    json.get_ref<const Json::object_t&>();  // throws if it is not an object
    visit_fields(result, [&](const char* name, auto& value) {
      at = name;
      const auto field = json.find(name);
      if (field == json.end()) return;
      read_field(*field, say(file, ": `", name, "`"), value);
      json.erase(field);
    });
    if (json.contains(at = "by_class")) {
      for (const auto& [name, value] : json["by_class"].items()) result.by_class.push_back({name, number_of(value)});
      json.erase("by_class");
    }
    if (json.contains(at = "best")) {
      result.best = best_of(json["best"]);
      json.erase("best");
    }
    for (const auto& [name, value] : json.items())  // the others are metrics
      result.metrics.push_back({at = name, number_of(value)});
  } catch (const nlohmann::json::exception& error) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + std::min(text.find('"' + at + '"'), text.size()), '\n');
    throw UsageError(__FILE__, __LINE__,
                     say(file, ":", line, ": octet did not write ", at.empty() ? "this file" : "`" + at + "`", ": ",
                         reason_of(error)),
                     "restore the file, or move it away and run octet train --resume, which writes it again");
  }
  return result;
}

void write_result(const std::string& run_directory, const Result& result) {
  Json json = json_of(result.metrics);
  if (!result.by_class.empty()) json["by_class"] = json_of(result.by_class);
  if (result.best) {
    json["best"] = {{"epoch", result.best->epoch}, {"step", result.best->step}};
    json["best"].update(json_of(result.best->figures));
  }
  visit_fields(result, [&](const char* name, const auto& value) {
    if constexpr (!is_optional<std::remove_cvref_t<decltype(value)>>)
      json[name] = value;
    else if (value)
      json[name] = *value;
  });
  write_durably(run_directory + "/result.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace octet
