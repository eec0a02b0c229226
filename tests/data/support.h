#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "src/data/loader.h"

namespace octet {

// A folder of its own for one test, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "octet-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& file, const std::vector<uint8_t>& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
}

// What the expected exception says; fails the test if there is none of that type.
template <class Expected, class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no exception";
  return "";
}

inline void expect_says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

inline std::vector<uint8_t> room_for(const ImageShape& shape) {
  return std::vector<uint8_t>(static_cast<size_t>(shape.height * shape.width * pixel_channels));
}
constexpr PixelScale bytes_as_they_are{{1, 1, 1}, {0, 0, 0}};
// The colors of a sample, three numbers a pixel; 0 where there is no pixel.
inline std::vector<float> pixels_of(const Dataset& data, int64_t index, bool training = false, uint64_t seed = 1,
                                    int64_t epoch = 0, const PixelScale& by = bytes_as_they_are) {
  std::vector<uint8_t> bytes = room_for(data.shape());
  EXPECT_TRUE(data.read(index, training, seed, epoch, bytes.data()));
  std::vector<float> pixels(bytes.size() / pixel_channels * 3);
  normalize_pixels(by, bytes.data(), static_cast<int64_t>(bytes.size()) / pixel_channels, pixels.data());
  return pixels;
}
// The bytes of a batch whose samples are not mixed. pixels: of a sample.
inline std::vector<uint8_t> bytes_of(const Batch& batch, int64_t pixels) {
  const auto* const first = static_cast<const uint8_t*>(batch.images);
  return {first, first + batch.count * pixels * pixel_channels};
}

}  // namespace octet
