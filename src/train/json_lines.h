// Files of JSON objects, one in a line, that a run appends to: metrics.jsonl, clips.jsonl, histograms.jsonl.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace octet {

// Calls take(record, line) for each line that is a JSON object with a `step`. Other lines are passed over, since a
// crash may leave half a line. Error with file and line: a field that `take` reads has another type.
// Returns false where there is no file.
bool for_each_record(const std::string& path,
                     const std::function<void(const nlohmann::json& record, const std::string& line)>& take);

}  // namespace octet
