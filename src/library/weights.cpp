#include <filesystem>

#include "src/library/failure.h"
#include "src/library/messages.h"
#include "src/version.h"
#include "src/weights/safetensors.h"
#include "src/weights/trained_network.h"

namespace octet::library {

std::vector<Tensor> weights(const std::string& path) {
  return with_failures([&] {
    show_warnings();
    const std::string file = std::filesystem::is_directory(path) ? find_network(path, "", {}).weights : path;
    const SafetensorsFile found = SafetensorsFile::open(file);
    std::vector<Tensor> tensors;
    for (const std::string& name : found.names())
      if (const std::string& type = found.dtype(name);
          type == "F32" || type == "F16" || type == "BF16" || type == "F64")
        tensors.push_back({name, found.shape(name), found.floats(name)});
    return tensors;
  });
}

const char* version() { return octet::version; }

}  // namespace octet::library
