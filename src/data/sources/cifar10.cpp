// CIFAR-10 from its binary files: data_batch_1..5.bin and test_batch.bin in data.root, or in its folder
// cifar-10-batches-bin. Source of the layout: https://www.cs.toronto.edu/~kriz/cifar.html
#include <filesystem>
#include <fstream>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/data/images/pixels.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr int64_t side = 32, plane = side * side, record = 1 + 3 * plane, records_per_file = 10000;

void require_size(const std::string& file, int64_t size, int64_t records) {
  REQUIRE_USAGE(size == records * record, "unpack cifar-10-binary.tar.gz again: this copy is damaged", file, ": ", size,
                " bytes, expected ", records * record, " (", records, " records of ", record, ")");
}

std::vector<uint8_t> read_file(const fs::path& file) {
  std::error_code failed;
  const bool regular = fs::is_regular_file(file, failed);
  REQUIRE_USAGE(regular, "unpack cifar-10-binary.tar.gz and set data.root to the folder with its .bin files",
                file.string(),
                ": no such file; CIFAR-10 needs data_batch_1.bin .. data_batch_5.bin and test_batch.bin");
  const auto size = static_cast<int64_t>(fs::file_size(file));
  require_size(file.string(), size, records_per_file);
  std::vector<uint8_t> bytes(size);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), size);
  REQUIRE_USAGE(stream.is_open(), "check the permissions of the file", file.string(), ": cannot be read");
  if (stream.gcount() != size)
    throw FileError(__FILE__, __LINE__, say(file.string(), ": read ", stream.gcount(), " of ", size, " bytes"),
                    "check the disk and its file system");
  return bytes;
}

std::unique_ptr<Dataset> open_files(const fs::path& folder, const std::vector<std::string>& files,
                                    const Config& config) {
  Pixels pixels;
  pixels.classes = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  pixels.padding = 4;
  pixels.augment = config.data.augment;
  pixels.augmentation = config.augment;
  for (const auto& file : files)
    parse_cifar10(read_file(folder / file), (folder / file).string(), records_per_file, pixels);
  pixels.description = say("cifar10: ", pixels.count(), " images in ", folder.string());
  return image_side(config.data) == side ? make_dataset(std::move(pixels)) : make_resized(std::move(pixels), config);
}

}  // namespace

void parse_cifar10(std::span<const uint8_t> bytes, const std::string& file, int64_t records, Pixels& pixels) {
  require_size(file, static_cast<int64_t>(bytes.size()), records);
  const size_t before = pixels.images.size();
  pixels.images.resize(before + records * 3 * plane);
  uint8_t* to = pixels.images.data() + before;
  for (int64_t r = 0; r < records; ++r) {
    const uint8_t *label = bytes.data() + r * record, *red = label + 1, *green = red + plane, *blue = green + plane;
    REQUIRE_USAGE(*label < 10, "use the files of cifar-10-binary.tar.gz; CIFAR-100 has two labels in a record", file,
                  ": record ", r, " has label ", int{*label}, ", expected 0 .. 9");
    pixels.labels.push_back(*label);
    for (int64_t i = 0; i < plane; ++i, to += 3) {
      to[0] = red[i];
      to[1] = green[i];
      to[2] = blue[i];
    }
  }
}

Datasets open_cifar10(const Config& config, bool training) {
  const fs::path root = config.data.root, inner = root / "cifar-10-batches-bin";
  const fs::path folder = fs::is_directory(inner) ? inner : root;
  Datasets sets;
  if (training)
    sets.train = open_files(
        folder, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
        config);
  sets.test = open_files(folder, {"test_batch.bin"}, config);
  return sets;
}

}  // namespace octet
