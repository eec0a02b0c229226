#include "src/run/metrics.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "comm/heartbeat.h"
#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "kernels/base/host_name.h"
#include "src/config/foreign_json.h"
#include "src/config/json_error.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// Returns the lines of a file that are records of steps <= last.
std::string kept_lines(const std::string& path, int64_t last) {
  std::string kept;
  for_each_record(path, [&](const nlohmann::json& record, const std::string& line) {
    if (record.at("step").get<int64_t>() <= last) kept += line + "\n";
  });
  return kept;
}

// Leaves the records of steps <= resumed_step in a file.
std::string cut(const std::string& path, int64_t resumed_step) {
  write_durably(path, kept_lines(path, resumed_step));
  return path;
}

Json stamped(Json record) {
  record["time"] = std::round(1e3 * seconds_since_1970()) / 1e3;
  record["host"] = host_name();
  return record;
}

}  // namespace

nlohmann::json record_in(const std::string& line, const std::string& place) {
  constexpr size_t longest = size_t{1} << 20;
  REQUIRE_USAGE(line.size() <= longest, "delete the line", place, ": octet did not write this record: it has ",
                line.size(), " bytes");
  try {
    return parse_foreign_json<nlohmann::json>(line, place, /*levels=*/2);
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

bool for_each_record(const std::string& path,
                     const std::function<void(const nlohmann::json& record, const std::string& line)>& take) {
  if (!std::filesystem::exists(path)) return false;
  std::istringstream stream(read_if_there(path));
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const nlohmann::json record = record_in(line, say(path, ":", number));
    if (!record.is_object() || !record.contains("step")) continue;
    try {
      const auto step = record.at("step").get<double>();
      REQUIRE_USAGE(step >= 0 && step <= 1e15, "correct the line, or delete it", path, ":", number,
                    ": octet did not write this record: its step is ", step);
      take(record, line);
    } catch (const nlohmann::json::exception& error) {
      throw UsageError(
          __FILE__, __LINE__,
          say(path, ":", number, ": octet did not write this record: ", reason_of(error), ": ", line.substr(0, 120)),
          "correct the line, or delete it");
    }
  }
  return true;
}

MetricsWriter::MetricsWriter(const std::string& run_directory, int64_t resumed_step)
    : directory_(run_directory),
      metrics_(cut(run_directory + "/metrics.jsonl", resumed_step)),
      clips_(cut(run_directory + "/clips.jsonl", resumed_step)),
      histograms_(cut(run_directory + "/histograms.jsonl", resumed_step)),
      events_(run_directory, resumed_step) {}

void MetricsWriter::write_settings(const Config& config) {
  if (!events_.write_settings(config)) warn_once();
}

void MetricsWriter::write_picture(int64_t step, const std::string& tag, int width, int height, const std::string& png) {
  if (!events_.write_picture(step, tag, width, height, png)) warn_once();
}

bool MetricsWriter::holds(int64_t step, const std::string& kind) const {
  bool held = false;
  for_each_record(directory_ + "/metrics.jsonl", [&](const nlohmann::json& record, const std::string&) {
    held = held || (record.at("step").get<int64_t>() == step && record.value("kind", "") == kind);
  });
  return held;
}

void MetricsWriter::write(int64_t step, const std::string& kind, std::span<const Scalar> scalars) {
  Json record = {{"step", step}, {"kind", kind}};
  for (const Scalar& scalar : scalars) record[scalar.name] = scalar.value;
  append(metrics_, stamped(std::move(record)).dump());
  write_events(step, kind, scalars);
}

void MetricsWriter::write_epoch(int64_t step, const EpochRecord& epoch) {
  Json record = {
      {"step", step}, {"kind", "epoch"}, {"epoch", epoch.epoch}, {"steps", epoch.steps}, {"seconds", epoch.seconds}};
  Scalars scalars = epoch.means;
  scalars.push_back({"learning_rate", epoch.learning_rate});
  for (const Scalar& scalar : scalars) record[scalar.name] = scalar.value;
  append(metrics_, stamped(std::move(record)).dump());
  write_events(step, "epoch", scalars);
}

void MetricsWriter::write_events(int64_t step, const std::string& kind, std::span<const Scalar> scalars) {
  std::vector<Scalar> tagged;
  for (const Scalar& scalar : scalars) tagged.push_back({kind + "/" + scalar.name, scalar.value});
  if (!events_.write(step, tagged)) warn_once();
}

void MetricsWriter::write_clips(int64_t step, std::span<const ClipRecord> clips) {
  std::vector<Scalar> tagged;
  for (const ClipRecord& clip : clips) {
    append(clips_, Json{{"step", step},
                        {"layer", clip.layer},
                        {"clip", clip.clip},
                        {"d_c", clip.d_c},
                        {"lr_scale", clip.lr_scale},
                        {"saturated", clip.saturated}}
                       .dump());
    tagged.push_back({"clip/" + clip.layer, clip.clip});
    tagged.push_back({"d_c/" + clip.layer, clip.d_c});
    tagged.push_back({"lr_scale/" + clip.layer, clip.lr_scale});
  }
  if (!events_.write(step, tagged)) warn_once();
}

void MetricsWriter::write_histogram(int64_t step, const std::string& layer, int first_octave,
                                    std::span<const int64_t> counts, const KolmogorovSmirnov& statistics) {
  append(histograms_, Json{{"step", step},
                           {"layer", layer},
                           {"first_octave", first_octave},
                           {"counts", std::vector<int64_t>(counts.begin(), counts.end())},
                           {"ks_gaussian", statistics.gaussian},
                           {"ks_laplace", statistics.laplace},
                           {"ks_student", statistics.student},
                           {"ks_critical", statistics.critical}}
                          .dump());
}

std::string MetricsWriter::deleted_file() const {
  for (const LineFile* file : {&metrics_, &clips_, &histograms_})
    if (file->deleted()) return file->path();
  return events_.deleted() ? events_.path() : "";
}

void MetricsWriter::append(LineFile& file, const std::string& line) {
  if (!file.append(line)) warn_once();
}

void MetricsWriter::warn_once() {
  if (!std::exchange(warned_, true))
    spdlog::warn("'{}': metrics cannot be written and have gaps; check the free space", directory_);
}

}  // namespace octet
