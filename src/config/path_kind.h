// What a path on the command line leads to, for hints where two of them were swapped.
#pragma once
#include <cstdint>
#include <string>

namespace octet {

enum class PathKind : uint8_t { nothing, run, folder, weights, image, recipe, other };

// By the file's ending, and by what a folder holds; no file is opened.
PathKind kind_of_path(const std::string& path);
// "the directory of a run", "an image"; of nothing "no file or folder".
const char* name_of(PathKind);

}  // namespace octet
