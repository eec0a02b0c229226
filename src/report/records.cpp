#include "src/report/records.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"

namespace octet {
namespace {

template <class Take>
bool for_each_record(const std::string& path, const Take& take) {
  std::ifstream stream(path);
  if (!stream) return false;
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object() && record.contains("step") && record["step"].is_number()) take(record);
  }
  return true;
}

// What was not finite is null in the file.
double number_of(const nlohmann::json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

void add(Series& series, double step, double value) {
  series.x.push_back(step);
  series.y.push_back(value);
}

}  // namespace

RunRecords read_records(const std::string& directory) {
  RunRecords records;
  const bool found = for_each_record(directory + "/metrics.jsonl", [&](const nlohmann::json& record) {
    const std::string kind = record.value("kind", "");
    for (const auto& [key, value] : record.items()) {
      if (key == "step" || key == "kind") continue;
      Series& series = records.metrics[kind + "/" + key];
      series.name = kind + " " + key;
      add(series, number_of(record, "step"), number_of(record, key.c_str()));
    }
  });
  REQUIRE_USAGE(found, "give the directory of a run: what `octet train` named as its run directory", directory,
                " holds no metrics.jsonl");
  std::map<std::string, size_t> places;
  for_each_record(directory + "/clips.jsonl", [&](const nlohmann::json& record) {
    const std::string name = record.value("layer", "");
    const auto [place, added] = places.emplace(name, records.layers.size());
    if (added) {
      records.layers.push_back({name, {}, {}, {}, {}});
      RunRecords::Layer& layer = records.layers.back();
      layer.clip.name = layer.d_c.name = layer.lr_scale.name = layer.saturated.name = name;
    }
    RunRecords::Layer& layer = records.layers[place->second];
    const double step = number_of(record, "step");
    add(layer.clip, step, number_of(record, "clip"));
    add(layer.d_c, step, number_of(record, "d_c"));
    add(layer.lr_scale, step, number_of(record, "lr_scale"));
    add(layer.saturated, step, number_of(record, "saturated"));
  });
  for_each_record(directory + "/histograms.jsonl", [&](const nlohmann::json& record) {
    if (!record.contains("counts") || !record["counts"].is_array()) return;
    RunRecords::Histogram histogram;
    histogram.step = number_of(record, "step");
    histogram.first_octave = int(number_of(record, "first_octave"));
    for (const nlohmann::json& count : record["counts"])
      histogram.counts.push_back(count.is_number() ? count.get<double>() : 0);
    histogram.gaussian = number_of(record, "ks_gaussian");
    histogram.laplace = number_of(record, "ks_laplace");
    histogram.student = number_of(record, "ks_student");
    histogram.critical = number_of(record, "ks_critical");
    records.histograms[record.value("layer", "")].push_back(std::move(histogram));
  });
  return records;
}

}  // namespace octet
