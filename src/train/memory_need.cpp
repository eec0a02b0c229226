#include "src/train/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/data/augment/canvases.h"
#include "src/data/images/open_image.h"
#include "src/data/sources/folder_index.h"
#include "src/train/dry_plan.h"
#include "src/train/host_limits.h"
#include "src/train/rank.h"

namespace octet {
namespace {

// Pages of the program that the first step brings in, stacks of threads, and buffers of kernels.
constexpr int64_t program_grows = 16'000'000;

int64_t bytes_of_checkpoint(const Config& config, const Parameters& parameters) {
  int64_t numbers = 0;
  for (const Param& param : parameters.all())
    numbers += param.shape.elements() * (param.frozen ? 1 : config.train.ema > 0 ? 3 : 2);
  return numbers * int64_t{sizeof(float)};
}

}  // namespace

// Evaluation decodes all of a photograph. A plan may be made before the images are there.
int64_t bytes_of_decoding(const Config& config) {
  const Config::Data& data = config.data;
  std::error_code failed;
  if (data.name != "image_folder" || !std::filesystem::is_directory(data.root, failed)) return 0;
  constexpr size_t headers = 64;
  int64_t largest = 0;
  const FolderSplits splits = index_image_folder(data);
  for (const FolderIndex* const index : {&splits.train, &splits.test})
    for (size_t i = 0; i < std::min(headers, index->files.size()); ++i) try {
        const size_t file = i * index->files.size() / std::min(headers, index->files.size());
        const ImageHeader header = header_of(index->folder / index->files[file].first, data.max_pixels);
        largest = std::max(largest, header.width * header.height);
      } catch (const BadImage&) {  // it takes no memory
      }
  return data.workers * 3 * largest;
}

std::string MemoryNeed::text() const {
  const auto megabytes = [](int64_t bytes) { return double(bytes) / 1e6; };
  std::string text = fmt::format(
      "{:.1f} MB: program {:.1f}, weights with gradients and momentum {:.1f}, arena {:.1f}, images {:.1f}, a "
      "checkpoint while it is written {:.1f}",
      megabytes(total()), megabytes(program), megabytes(parameters), megabytes(arena), megabytes(images + decoding),
      megabytes(checkpoint));
  return text;
}

MemoryNeed memory_needed(const Config& config, int64_t ranks, int64_t decoding) {
  MemoryNeed need;
  need.decoding = decoding;
  const int64_t batch = batch_of_plan(config, ranks);
  for (const ImageShape& shape : input_shapes(config.data)) {
    const DryPlan dry(config, shape.height, shape.width, batch,
                      {.storage = storage_of(config), .norm_group = config.train.norm_group, .training = true});
    need.arena = std::max(need.arena, int64_t(dry.plan.arena_bytes()));
    need.parameters = int64_t(dry.parameters.bytes(true));
    need.checkpoint = bytes_of_checkpoint(config, dry.parameters);
  }
  need.images = bytes_read_ahead(config, config.data.batch / ranks);
  need.program = int64_t(bytes_in_proc("/proc/self/status", "VmRSS")) + program_grows;
  return need;
}

}  // namespace octet
