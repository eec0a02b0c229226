// CIFAR-10 from its binary files: data_batch_1..5.bin and test_batch.bin in data.root, or in its folder
// cifar-10-batches-bin. Source of the layout: https://www.cs.toronto.edu/~kriz/cifar.html
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

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

// An open file, whose images are read when they are needed: in memory all files take 180 MB.
class RecordFile {
 public:
  explicit RecordFile(const fs::path& file) : path_(file.string()) {
    std::error_code failed;
    REQUIRE_USAGE(fs::is_regular_file(file, failed),
                  "unpack cifar-10-binary.tar.gz and set data.root to the folder with its .bin files", path_,
                  ": no such file; CIFAR-10 needs data_batch_1.bin .. data_batch_5.bin and test_batch.bin");
    require_size(path_, static_cast<int64_t>(fs::file_size(file)), records_per_file);
    descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE_USAGE(descriptor_ >= 0, "check the permissions of the file", path_, ": cannot be read");
  }
  ~RecordFile() { close(descriptor_); }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::string& path() const { return path_; }
  void read(int64_t first, int64_t count, uint8_t* to) const {
    const auto bytes = static_cast<ssize_t>(count * record);
    ssize_t done = 0, got = 1;
    for (; done < bytes && got > 0; done += std::max<ssize_t>(got, 0))
      got = pread(descriptor_, to + done, bytes - done, first * record + done);
    if (done < bytes)
      throw FileError(__FILE__, __LINE__, say(path_, ": read ", done, " of ", bytes, " bytes"),
                      "check the disk and its file system");
  }
  void add_labels(std::vector<uint8_t>& labels) const {
    constexpr int64_t at_once = 100;
    std::vector<uint8_t> bytes(at_once * record);
    for (int64_t first = 0; first < records_per_file; first += at_once) {
      read(first, at_once, bytes.data());
      Pixels some;
      parse_cifar10(bytes, path_, at_once, some, first);
      labels.insert(labels.end(), some.labels.begin(), some.labels.end());
    }
  }

 private:
  const std::string path_;
  int descriptor_ = -1;
};

std::unique_ptr<Dataset> open_files(const fs::path& folder, const std::vector<std::string>& files,
                                    const Config& config) {
  Pixels pixels;
  pixels.classes = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  pixels.padding = 4;
  pixels.augment = config.data.augment;
  pixels.augmentation = config.augment;
  std::vector<std::shared_ptr<const RecordFile>> opened;
  for (const auto& file : files) {
    opened.push_back(std::make_shared<RecordFile>(folder / file));
    opened.back()->add_labels(pixels.labels);
  }
  pixels.fetch = [opened](int64_t index, uint8_t* image) {
    std::array<uint8_t, record> bytes;
    const RecordFile& file = *opened[index / records_per_file];
    file.read(index % records_per_file, 1, bytes.data());
    Pixels one;
    parse_cifar10(bytes, file.path(), 1, one);
    std::ranges::copy(one.images, image);
  };
  pixels.description = say("cifar10: ", pixels.count(), " images in ", folder.string());
  return image_side(config.data) == side ? make_dataset(std::move(pixels)) : make_resized(std::move(pixels), config);
}

}  // namespace

void parse_cifar10(std::span<const uint8_t> bytes, const std::string& file, int64_t records, Pixels& pixels,
                   int64_t first) {
  require_size(file, static_cast<int64_t>(bytes.size()), records);
  const size_t before = pixels.images.size();
  pixels.images.resize(before + records * 3 * plane);
  uint8_t* to = pixels.images.data() + before;
  for (int64_t r = 0; r < records; ++r) {
    const uint8_t *label = bytes.data() + r * record, *red = label + 1, *green = red + plane, *blue = green + plane;
    REQUIRE_USAGE(*label < 10, "use the files of cifar-10-binary.tar.gz; CIFAR-100 has two labels in a record", file,
                  ": record ", first + r, " has label ", int{*label}, ", expected 0 .. 9");
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
