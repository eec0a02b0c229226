// What is wrong with a JSON file.
#pragma once
#include <exception>
#include <string>

namespace octet {

// What an error of the JSON library says, without its name and number.
inline std::string reason_of(const std::exception& of_json) {
  const std::string what = of_json.what();  // "[json.exception.type_error.302] type must be number, but is string"
  const size_t code = what.find("] ");
  return what.starts_with('[') && code != std::string::npos ? what.substr(code + 2) : what;
}

}  // namespace octet
