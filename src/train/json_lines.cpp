#include "src/train/json_lines.h"

#include <filesystem>
#include <sstream>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"

namespace octet {

bool for_each_record(const std::string& path,
                     const std::function<void(const nlohmann::json& record, const std::string& line)>& take) {
  if (!std::filesystem::exists(path)) return false;
  std::istringstream stream(read_if_there(path));
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step")) continue;
    try {
      take(record, line);
    } catch (const nlohmann::json::exception& error) {
      throw Error(
          __FILE__, __LINE__,
          say(path, ":", number, ": octet did not write this record: ", error.what(), ": ", line.substr(0, 120)),
          "correct the line, or delete it");
    }
  }
  return true;
}

}  // namespace octet
