// Files that hold either the old content or the complete new one, even if the process or the machine dies during a
// write.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "kernels/base/error.h"

namespace octet {

// The operating system refused: no space, input/output error, file too large, no permission.
class FileError : public Error {
 public:
  using Error::Error;
};

// Collects the new content of `path` in `path`.tmp. commit() puts it in place: fsync, rename, fsync of the directory.
// Without commit() nothing changes and the temporary file is removed. Every member throws FileError. Signals that
// interrupt a system call do not matter. A link to a file is replaced by the new file. A device, a pipe or a folder at
// `path` or `path`.tmp stays, and so does a link at `path`.tmp: FileError.
class DurableFile {
 public:
  explicit DurableFile(std::string path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_at(int64_t offset, std::span<const std::byte> bytes);  // overwrites what write() has written
  void sync();    // the content is complete; a lack of space shows here at the latest
  void commit();  // calls sync() first, unless it was called

 private:
  std::string path_, temporary_;
  int descriptor_;
  int64_t end_ = 0;  // where write() continues
};

// Whether the disk is at fault: full, over its quota, failing or away. Otherwise the path is, or its permissions.
bool is_of_disk(const std::error_code&);
// Makes a directory and those above it. FileError: the disk is at fault. UsageError: `path` is.
void make_directories(const std::string& path, const std::string& fix);

void write_durably(const std::string& path, std::string_view text);
// Several files that belong together: none is put in place before all are complete on the disk.
struct FileText {
  std::string path;
  std::string_view text;
};
void write_durably(std::span<const FileText>);
// The content of a file that anybody may have written; empty if it does not exist. FileError: it exists, but cannot be
// read. UsageError: it is a folder, a pipe or a device, or has more than `most` bytes.
std::string read_if_there(const std::string& path, int64_t most = int64_t{1} << 30);
// Whether the path of an open file leads nowhere by now, or to another file. What is written to such a file is lost.
bool was_deleted(int descriptor, const std::string& path);

}  // namespace octet
