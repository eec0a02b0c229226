// A file of lines that grows. It never keeps part of a line, even if the disk is full for a while.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace octet {

class LineFile {
 public:
  // Keeps the content of `path`, and makes the file if there is none. FileError: it cannot be opened.
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends a line, which must not contain a newline. False: it cannot be written, and the file is as before.
  bool append(std::string_view line);
  const std::string& path() const { return path_; }
  bool deleted() const;  // since it was opened

 private:
  std::string path_;
  int descriptor_;
  int64_t end_ = 0;  // of the last complete line
};

}  // namespace octet
