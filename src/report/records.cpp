#include "src/report/records.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/config/path_kind.h"
#include "src/run/metrics.h"

namespace octet {
namespace {

constexpr const char* give_run = "give the directory of a run: what `octet train` named as its run directory";

// A number that was not finite is null in the file.
double number_of(const nlohmann::json& record, const std::string& key) {
  const auto found = record.find(key);
  return found == record.end() || found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
}

void add(Series& series, const nlohmann::json& record, const std::string& key) {
  series.x.push_back(number_of(record, "step"));
  series.y.push_back(number_of(record, key));
}

// Only the last epoch may be incomplete.
void add_epoch(RunRecords& records, const nlohmann::json& record) {
  records.steps_per_epoch = std::max(records.steps_per_epoch.value_or(0), number_of(record, "steps"));
  records.epoch_seconds[record.at("epoch").get<int64_t>()] = number_of(record, "seconds");
}

// When and where it was written.
void add_stamp(RunRecords& records, const nlohmann::json& record) {
  const double time = record.contains("time") ? number_of(record, "time") : 0;
  if (time > 0) {
    if (records.begun == 0) records.begun = time;
    records.ended = time;
  }
  if (const std::string host = record.value("host", "");
      !host.empty() && std::ranges::find(records.hosts, host) == records.hosts.end())
    records.hosts.push_back(host);
}

}  // namespace

double RunRecords::train_seconds() const {
  double sum = 0;
  for (const auto& [epoch, seconds] : epoch_seconds) sum += seconds;
  return sum;
}

RunRecords read_records(const std::string& directory) {
  const PathKind kind = kind_of_path(directory);
  REQUIRE_USAGE(kind == PathKind::run || kind == PathKind::folder, give_run, directory, " is ", name_of(kind),
                ", not the directory of a run");
  RunRecords records;
  const bool found =
      for_each_record(directory + "/metrics.jsonl", [&](const nlohmann::json& record, const std::string&) {
        const std::string kind = record.value("kind", "");
        records.steps = std::max(records.steps, record.at("step").get<int64_t>());
        if (kind == "epoch") add_epoch(records, record);
        add_stamp(records, record);
        for (const auto& [key, value] : record.items()) {
          if (key == "step" || key == "kind" || key == "time" || key == "host") continue;
          if (kind == "epoch" && (key == "epoch" || key == "steps" || key == "seconds")) continue;
          Series& series = records.metrics[kind + "/" + key];
          series.name = kind + " " + key;
          add(series, record, key);
        }
      });
  REQUIRE_USAGE(found, give_run, directory, " holds no metrics.jsonl");
  std::map<std::string, size_t> places;
  for_each_record(directory + "/clips.jsonl", [&](const nlohmann::json& record, const std::string&) {
    const std::string name = record.value("layer", "");
    const auto [place, added] = places.emplace(name, records.layers.size());
    if (added) records.layers.push_back({name, {name}, {name}, {name}, {name}});
    RunRecords::Layer& layer = records.layers[place->second];
    add(layer.clip, record, "clip");
    add(layer.d_c, record, "d_c");
    add(layer.lr_scale, record, "lr_scale");
    add(layer.saturated, record, "saturated");
  });
  for_each_record(directory + "/histograms.jsonl", [&](const nlohmann::json& record, const std::string&) {
    records.histograms[record.value("layer", "")].push_back({.step = number_of(record, "step"),
                                                             .first_octave = record.at("first_octave"),
                                                             .counts = record.at("counts"),
                                                             .gaussian = number_of(record, "ks_gaussian"),
                                                             .laplace = number_of(record, "ks_laplace"),
                                                             .student = number_of(record, "ks_student"),
                                                             .critical = number_of(record, "ks_critical")});
  });
  return records;
}

}  // namespace octet
