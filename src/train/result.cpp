#include "src/train/result.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"

namespace octet {

int64_t finished_steps(const std::string& run_directory) {
  std::ifstream stream(run_directory + "/result.json");
  const auto json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("steps", int64_t{0}) : 0;
}

void write_result(const std::string& run_directory, const Result& result) {
  const nlohmann::ordered_json json = {{"top1", result.top1},
                                       {"top5", result.top5},
                                       {"loss", result.loss},
                                       {"epochs", result.epochs},
                                       {"steps", result.steps},
                                       {"ranks", result.ranks},
                                       {"images", result.images},
                                       {"images_per_epoch", result.images_per_epoch},
                                       {"backend", result.backend},
                                       {"isa", result.isa},
                                       {"policy", result.policy},
                                       {"images_per_second", result.images_per_second},
                                       {"wall_seconds", result.wall_seconds},
                                       {"arena_bytes", result.arena_bytes},
                                       {"peak_memory_bytes", result.peak_memory_bytes},
                                       {"wire_bytes_per_step", result.wire_bytes_per_step},
                                       {"weights_sha256", result.weights_sha256},
                                       {"commit", result.commit}};
  write_durably(run_directory + "/result.json", json.dump(2) + "\n");
}

}  // namespace octet
