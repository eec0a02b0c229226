#include "src/data/pack.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <opencv2/imgproc.hpp>
#include <thread>

#include "kernels/base/error.h"
#include "src/data/decode.h"
#include "src/data/folder_index.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

template <class Number>
void put(std::ofstream& out, Number number) {
  out.write(reinterpret_cast<const char*>(&number), sizeof number);
}

// Decoded, its shorter side at most `side`; empty: a bad image that is skipped.
cv::Mat prepared(const fs::path& file, const Config::Data& data, int side) {
  try {
    const std::vector<uint8_t> bytes = read_image_file(file, 8 * data.max_pixels + (1 << 20));
    const ImageHeader header = read_header(bytes, data.max_pixels);
    const double scale = 1.0 * side / static_cast<double>(std::min(header.width, header.height));
    const cv::Mat image = decode(bytes, header, std::min(scale, 1.0));
    if (std::min(image.cols, image.rows) <= side) return image.isContinuous() ? image : image.clone();
    const double shrink = 1.0 * side / std::min(image.cols, image.rows);
    cv::Mat result;
    cv::resize(image, result,
               {static_cast<int>(std::lround(image.cols * shrink)), static_cast<int>(std::lround(image.rows * shrink))},
               0, 0, cv::INTER_AREA);
    return result;
  } catch (const BadImage& bad) {
    REQUIRE(data.bad_images == "skip", "mend or remove the file, or set data.bad_images: skip", file.string(), ": ",
            bad.what());
    spdlog::warn("skipped {}: {}", file.string(), bad.what());
    return {};
  }
}

void write_pack(const FolderIndex& index, const Config::Data& data, const fs::path& path, PackReport& report) {
  const int side = static_cast<int>((data.image_size ? data.image_size : 224) * 256 / 224);
  const fs::path unfinished = path.string() + ".part";
  std::ofstream out(unfinished, std::ios::binary);
  out.write("octpack1", 8);
  put(out, uint64_t{0});
  std::vector<PackedImage> images;
  uint64_t offset = 16;

  constexpr size_t at_once = 256;
  std::vector<cv::Mat> decoded(at_once);
  for (size_t first = 0; first < index.files.size(); first += at_once) {
    const size_t count = std::min(at_once, index.files.size() - first);
    std::atomic<size_t> next = 0;
    std::exception_ptr failure;
    std::atomic<bool> failed = false;
    {
      std::vector<std::jthread> workers;
      for (int64_t worker = 0; worker < data.workers; ++worker)
        workers.emplace_back([&] {
          try {
            for (size_t i = next++; i < count && !failed; i = next++)
              decoded[i] = prepared(index.folder / index.files[first + i].first, data, side);
          } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
          }
        });
    }
    if (failure) std::rethrow_exception(failure);
    for (size_t i = 0; i < count; ++i) {
      const cv::Mat& image = decoded[i];
      if (image.empty()) {
        ++report.skipped;
        continue;
      }
      const uint64_t bytes = image.total() * 3;
      out.write(reinterpret_cast<const char*>(image.data), static_cast<std::streamsize>(bytes));
      images.push_back({offset, uint32_t(image.cols), uint32_t(image.rows), index.files[first + i].second});
      offset += bytes;
    }
  }

  put(out, uint64_t{images.size()});
  put(out, uint64_t{index.classes.size()});
  for (const std::string& name : index.classes) {
    put(out, uint64_t{name.size()});
    out.write(name.data(), static_cast<std::streamsize>(name.size()));
  }
  for (const PackedImage& image : images) {
    put(out, image.offset);
    put(out, image.width);
    put(out, image.height);
    put(out, image.label);
  }
  out.seekp(8);
  put(out, offset);
  out.close();
  REQUIRE(out.good(), "free some space", "cannot write ", unfinished.string());
  fs::rename(unfinished, path);
  report.images += static_cast<int64_t>(images.size());
  report.bytes += fs::file_size(path);
}

}  // namespace

PackReport pack_image_folder(const Config& config, const std::string& directory) {
  cv::setNumThreads(0);
  REQUIRE_USAGE(config.data.name == "image_folder", "give a configuration with data.name: image_folder",
                "data.name is '", config.data.name, "', which cannot be packed");
  const FolderSplits splits = index_image_folder(config.data.root);
  fs::create_directories(directory);
  PackReport report;
  write_pack(splits.train, config.data, fs::path(directory) / "train.pack", report);
  write_pack(splits.test, config.data, fs::path(directory) / "val.pack", report);
  return report;
}

}  // namespace octet
