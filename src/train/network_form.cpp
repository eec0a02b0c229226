#include "src/train/network_form.h"

#include <spdlog/spdlog.h>

#include "kernels/base/error.h"
#include "src/data/loader.h"
#include "src/models/models.h"
#include "src/weights/recipe.h"

namespace octet {
namespace {

std::optional<int64_t> side_of(const std::optional<Config>& recipe) {
  try {
    if (recipe) return image_side(recipe->data);
  } catch (const UsageError&) {  // of a version of octet with other data sources
  }
  return {};
}

// Sides of images in pixels: of the training that wrote the file, and of the recipe.
struct Sides {
  int64_t trained, here;
  std::string text(const std::string& path, const std::string& network) const {
    return say(path, " was trained on images of ", trained, " pixels; for the ", here, " pixels here ", network,
               " has another form");
  }
};

// Empty: of one form.
std::optional<Sides> sides_of_other_form(const SafetensorsFile& file, const std::string& path, const Config& config) {
  const std::optional<Config> recipe = find_recipe(file, path);
  const std::optional<int64_t> trained = side_of(recipe);
  const std::string& network = config.model.name;
  if (!trained || recipe->model.name != network) return {};
  const int64_t here = image_side(config.data);
  if (form_of(network, *trained) == form_of(network, here)) return {};
  return Sides{*trained, here};
}

}  // namespace

std::optional<int64_t> trained_side(const SafetensorsFile& file, const std::string& path) {
  return side_of(find_recipe(file, path));
}

void require_same_form(const SafetensorsFile& file, const std::string& path, const Config& config) {
  const auto other = sides_of_other_form(file, path, config);
  REQUIRE_USAGE(!other, say("set data.image_size to ", other->trained, ", or use weights of this form"),
                other->text(path, config.model.name));
}

void warn_of_other_form(const SafetensorsFile& file, const std::string& path, const Config& config) {
  if (const auto other = sides_of_other_form(file, path, config))
    spdlog::warn("{}, which costs accuracy unless a long training follows", other->text(path, config.model.name));
}

}  // namespace octet
