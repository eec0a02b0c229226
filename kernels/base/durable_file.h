// Files that are either the old ones or complete new ones, whatever is killed or unplugged while they are written.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/error.h"

namespace octet {

// The operating system refused: no space, input/output error, file too large, no permission.
class FileError : public Error {
 public:
  using Error::Error;
};

// Collects a new content of `path` in `path`.tmp; commit() makes it the file: fsync, rename, fsync of the directory.
// Without commit() nothing changes and the temporary file goes. Every member throws FileError.
class DurableFile {
 public:
  explicit DurableFile(std::string path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_at(int64_t offset, std::span<const std::byte> bytes);  // over what is already written
  void sync();    // the content is complete and safe; what fails for want of space has failed then
  void commit();  // also sync(), unless it was called

 private:
  std::string path_, temporary_;
  int descriptor_;
};

void write_durably(const std::string& path, std::string_view text);
// The whole of a file; nothing where there is none. FileError: it is there, but cannot be read.
std::string read_if_there(const std::string& path);

}  // namespace octet
