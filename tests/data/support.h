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

inline std::vector<float> pixels_of(const Dataset& data, int64_t index, bool training = false, uint64_t seed = 1,
                                    int64_t epoch = 0) {
  const ImageShape shape = data.shape();
  std::vector<float> pixels(shape.height * shape.width * shape.channels);
  EXPECT_TRUE(data.read(index, training, seed, epoch, pixels.data()));
  return pixels;
}

}  // namespace octet
