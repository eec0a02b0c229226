// JSON of files that anybody may have written: run folders are shared.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/base/error.h"

namespace octet {

// The value that the text holds. Throws the JSON library's error for what is no JSON, and UsageError for values that
// would take the library hours, or far more memory than they have bytes: with more than so many levels of lists and
// objects, or with more than 32768 keys.
template <class Json = nlohmann::ordered_json>
Json parse_foreign_json(const std::string& text, const std::string& file, int levels = 16) {
  constexpr int most_keys = 32768;
  int keys = 0;
  using Event = typename Json::parse_event_t;
  return Json::parse(text, [&](int depth, Event event, Json&) {
    if (event == Event::key) ++keys;
    const bool begins = event == Event::array_start || event == Event::object_start;
    REQUIRE_USAGE((!begins || depth < levels) && keys <= most_keys, "move it away", file,
                  ": octet did not write this file: it has more levels or keys than any result");
    return true;
  });
}

// A count. Throws the JSON library's error for another type, and UsageError for numbers that octet does not count to.
inline int64_t count_in(const nlohmann::ordered_json& value, const std::string& what) {
  constexpr int64_t most = int64_t{1} << 53;
  const int64_t number = value.is_number_float() ? -1 : value.get<int64_t>();
  REQUIRE_USAGE(number >= 0 && number <= most, "move the file away", what, " is not a count, but ", value.dump());
  return number;
}

}  // namespace octet
