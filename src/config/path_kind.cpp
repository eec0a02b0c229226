#include "src/config/path_kind.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace octet {
namespace {

namespace fs = std::filesystem;

struct Ending {
  const char* text;
  PathKind kind;
};
constexpr Ending endings[] = {
    {".safetensors", PathKind::weights}, {".yaml", PathKind::recipe}, {".yml", PathKind::recipe},
    {".jpg", PathKind::image},           {".jpeg", PathKind::image},  {".png", PathKind::image},
    {".bmp", PathKind::image},           {".webp", PathKind::image},  {".tif", PathKind::image},
    {".tiff", PathKind::image},          {".ppm", PathKind::image},   {".pgm", PathKind::image},
};

}  // namespace

PathKind kind_of_path(const std::string& path) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    for (const char* const file : {"config.yaml", "weights.safetensors", "best.safetensors"})
      if (fs::exists(fs::path(path) / file, failed)) return PathKind::run;
    return PathKind::folder;
  }
  if (!fs::exists(path, failed)) return PathKind::nothing;
  std::string own = fs::path(path).extension().string();
  std::ranges::transform(own, own.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* const known = std::ranges::find(endings, own, &Ending::text);
  return known == std::end(endings) ? PathKind::other : known->kind;
}

const char* name_of(PathKind kind) {
  constexpr const char* names[] = {
      "no file or folder", "the directory of a run", "a folder", "a file of weights", "an image", "a recipe", "a file"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace octet
