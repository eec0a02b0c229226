#include "src/data/sources/pack.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <span>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "kernels/base/stop_signals.h"
#include "src/data/augment/crops.h"
#include "src/data/images/decode.h"
#include "src/data/images/open_image.h"
#include "src/data/images/resize.h"
#include "src/data/loader.h"
#include "src/data/on_threads.h"
#include "src/data/sources/folder_index.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

template <class Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// An image of at least `side` pixels along its shorter side is made smaller, so that it has just these. Training images
// are decoded at a smaller size where that is enough. Test images are those that evaluation of the folder would read.
Raster smaller(const OpenedImage& image, bool training, int64_t side) {
  const int64_t shorter = std::min(image.size.width, image.size.height);
  if (!training) {
    const Raster whole = image.decode(1);
    const Size64 size = resized_size(size_of(whole), std::min(side, shorter));
    return resized_part(whole, size, {0, 0, size.width, size.height});
  }
  Raster decoded = image.decode(std::min(1.0 * side / static_cast<double>(shorter), 1.0));
  const double shrink = std::min(1.0, 1.0 * side / std::min(decoded.cols, decoded.rows));
  return shrunk(decoded, shrink);
}

// Empty: a bad image that is skipped.
Raster prepared(const fs::path& file, const Config::Data& data, bool training) {
  try {
    const int64_t image_size = image_side(data);
    const int64_t side = training ? image_size * 256 / 224 : shorter_side(image_size);
    const Raster image = smaller(open_image(file, data.max_pixels, View::upright), training, side);
    if (std::max(image.cols, image.rows) > longest_side)
      throw BadImage(ImageFault::too_large,
                     say("a side of ", std::max(image.cols, image.rows), " pixels, beyond ", longest_side));
    return image.is_whole() ? image : image.copy();
  } catch (const BadImage& bad) {
    REQUIRE_USAGE(data.bad_images == "skip", "repair or remove the file, or set data.bad_images: skip", file.string(),
                  ": ", bad.what());
    spdlog::warn("skipped {}: {}", file.string(), bad.what());
    return {};
  }
}

void write_pack(const FolderIndex& index, const Config::Data& data, bool training, DurableFile& out,
                PackReport& report) {
  std::string head(pack_magic);
  put(head, uint64_t{0});
  put(head, uint64_t(image_side(data)));
  out.write(head);
  std::vector<PackedImage> packed;
  uint64_t offset = head.size();
  const auto at_once = static_cast<size_t>(4 * data.workers);  // decoded images need memory, narrow ones much of it
  for (size_t first = 0; first < index.files.size(); first += at_once) {
    REQUIRE(!stop_requested(), "start it again", "stopped by a signal; nothing was packed");
    const size_t count = std::min(at_once, index.files.size() - first);
    std::vector<Raster> images(count);
    on_threads(data.workers, count,
               [&](size_t i) { images[i] = prepared(index.folder / index.files[first + i].first, data, training); });
    for (size_t i = 0; i < count; ++i) {
      const Raster& image = images[i];
      if (image.empty()) {
        ++report.skipped;
        continue;
      }
      const std::span<const uint8_t> rows = image.bytes();
      out.write(std::as_bytes(rows));
      packed.push_back({offset, uint32_t(image.cols), uint32_t(image.rows), index.files[first + i].second});
      packed.back().hash = hash_of(packed.back(), rows);
      offset += rows.size();
    }
  }

  std::string tail;
  put(tail, uint64_t{packed.size()});
  put(tail, uint64_t{index.classes.size()});
  for (const std::string& name : index.classes) {
    put(tail, uint64_t{name.size()});
    tail += name;
  }
  for (const PackedImage& image : packed) put(tail, image);
  out.write(tail);
  out.write_at(8, std::as_bytes(std::span(&offset, 1)));
  report.images += static_cast<int64_t>(packed.size());
  report.bytes += offset + tail.size();
}

}  // namespace

PackReport pack_image_folder(const Config& config, const std::string& directory) {
  stop_on({SIGINT, SIGTERM});  // then the unfinished files are removed
  REQUIRE_USAGE(config.data.name == "image_folder", "give a configuration with data.name: image_folder",
                "data.name is '", config.data.name, "', which cannot be packed");
  FolderSplits splits = index_image_folder(config.data);
  for (FolderIndex* index : {&splits.train, &splits.test}) say_doubts(*index);
  std::error_code error;
  fs::create_directories(directory, error);
  REQUIRE_USAGE(!error, "choose a directory that can be written with --output", "cannot create ", directory, ": ",
                error.message());
  PackReport report;
  DurableFile train((fs::path(directory) / "train.pack").string()), test((fs::path(directory) / "val.pack").string());
  write_pack(splits.train, config.data, true, train, report);
  write_pack(splits.test, config.data, false, test, report);
  train.sync();
  test.sync();
  fs::remove(fs::path(directory) / "val.pack",
             error);  // so that a crash between the two leaves no old file beside a new one
  train.commit();
  test.commit();
  return report;
}

}  // namespace octet
