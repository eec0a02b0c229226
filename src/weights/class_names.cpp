#include "src/weights/class_names.h"

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/config/foreign_json.h"
#include "src/data/annotations/annotations.h"

namespace octet {
namespace {

constexpr const char *names_key = "classes", *ids_key = "category_ids";

template <class Value>
std::string json_text(const std::vector<Value>& values) {
  return nlohmann::json(values).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void add_classes(const Classes& classes, std::map<std::string, std::string>& metadata) {
  if (!classes.names.empty()) metadata[names_key] = json_text(classes.names);
  if (!classes.category_ids.empty()) metadata[ids_key] = json_text(classes.category_ids);
}

Classes read_classes(const SafetensorsFile& file, const std::string& path) {
  Classes classes;
  const auto read = [&](const char* key, auto& values) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end()) return;
    try {
      parse_foreign_json(found->second, path, /*levels=*/1).get_to(values);
    } catch (const nlohmann::json::exception& error) {
      REQUIRE_USAGE(false, "use the file that the training wrote", path, ": octet did not write its `", key,
                    "`: ", error.what());
    }
  };
  read(names_key, classes.names);
  read(ids_key, classes.category_ids);
  REQUIRE_USAGE(classes.category_ids.empty() || classes.category_ids.size() == classes.names.size(),
                "use the file that the training wrote", path, " has ", classes.names.size(), " names of classes and ",
                classes.category_ids.size(), " ids");
  tell_apart(classes.names, classes.category_ids);  // as annotations do; earlier files have names that are not
  return classes;
}

}  // namespace octet
