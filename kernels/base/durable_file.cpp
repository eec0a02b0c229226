#include "kernels/base/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

namespace octet {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* action) {
  throw FileError(__FILE__, __LINE__, say("'", path, "': ", action, ": ", std::strerror(errno)),
                  "check the free space, the quota and the permissions of its directory");
}

[[noreturn]] void refuse_other(const std::string& path) {
  throw FileError(__FILE__, __LINE__, say("'", path, "' is needed for a file, and something else is there"),
                  "move it away, or name another file");
}

// Repeats a system call that a signal interrupts. Network file systems can return EINTR in spite of SA_RESTART.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

DurableFile::DurableFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  struct stat found = {};
  // The rename and the unlink would take devices and pipes away from those who use them.
  if (stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) refuse_other(path_);
  if (lstat(temporary_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) refuse_other(temporary_);
  // What is left there, or was put there, is not written to: it may be a link to another file.
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  unlink(temporary_.c_str());
  descriptor_ = uninterrupted([&] { return open(temporary_.c_str(), flags, 0666); });
  if (descriptor_ < 0) refuse(temporary_, "open");
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  write_at(end_, bytes);
  end_ += static_cast<int64_t>(bytes.size());
}

void DurableFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return pwrite(descriptor_, bytes.data(), bytes.size(), offset); });
    if (written < 0) refuse(temporary_, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
}

void DurableFile::sync() {
  if (uninterrupted([&] { return fsync(descriptor_); }) != 0) refuse(temporary_, "fsync");
  // The content is safe after fsync, and close() frees the descriptor even when a signal interrupts it.
  if (close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) refuse(temporary_, "close");
}

void DurableFile::commit() {
  if (descriptor_ >= 0) sync();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) refuse(path_, "rename");
  temporary_.clear();
  const std::string parent = std::filesystem::path(path_).parent_path().string();
  const char* const folder = parent.empty() ? "." : parent.c_str();
  const int directory = uninterrupted([&] { return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (directory < 0) refuse(parent, "open");
  // Some file systems cannot sync a directory (EINVAL). The rename is then as durable as they can make it.
  const bool synced = uninterrupted([&] { return fsync(directory); }) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int error = errno;
  close(directory);
  errno = error;
  if (!synced) refuse(parent, "fsync");
}

std::string read_if_there(const std::string& path, int64_t most) {
  // Without waiting: somebody may have put a pipe there.
  const int file = uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  if (file < 0 && errno == ENOENT) return {};
  if (file < 0) refuse(path, "open");
  std::string text;
  size_t size = 0;
  struct stat status = {};
  ssize_t count = fstat(file, &status);
  const bool regular = count == 0 && S_ISREG(status.st_mode), small = status.st_size <= most;
  if (regular && small) text.resize(static_cast<size_t>(status.st_size) + 1);
  while (regular && size < text.size()) {  // to the end, since the size may be that of another moment
    count = uninterrupted([&] { return read(file, text.data() + size, text.size() - size); });
    if (count <= 0) break;
    size += static_cast<size_t>(count);
    if (size == text.size()) text.resize(std::min(2 * size, static_cast<size_t>(most) + 1));
  }
  const int error = errno;
  close(file);
  errno = error;
  if (count < 0) refuse(path, "read");
  REQUIRE_USAGE(regular, "move it away", "'", path, "' is not a regular file");
  REQUIRE_USAGE(small && size <= static_cast<size_t>(most), "move it away", "'", path, "' has more than the ", most,
                " bytes that such a file may have");
  text.resize(size);
  return text;
}

bool was_deleted(int descriptor, const std::string& path) {
  struct stat found = {}, mine = {};
  // Other errors are those of a file system that is away for a while.
  if (stat(path.c_str(), &found) != 0) return errno == ENOENT || errno == ENOTDIR;
  if (fstat(descriptor, &mine) != 0) return errno == ESTALE;  // a file server forgets deleted files
  return found.st_dev != mine.st_dev || found.st_ino != mine.st_ino;
}

bool is_of_disk(const std::error_code& error) {
  const auto causes = {ENOSPC, EDQUOT, EIO, EFBIG, ESTALE};  // both categories of the system number errors so
  return std::find(causes.begin(), causes.end(), error.value()) != causes.end();
}

void make_directories(const std::string& path, const std::string& fix) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error && is_of_disk(error)) {
    errno = error.value();
    refuse(path, "create");
  }
  REQUIRE_USAGE(!error, fix, "cannot create '", path, "': ", error.message());
}

void write_durably(const std::string& path, std::string_view text) {
  DurableFile file(path);
  file.write(text);
  file.commit();
}

void write_durably(std::span<const FileText> files) {
  std::vector<std::unique_ptr<DurableFile>> open;
  for (const FileText& of : files) {
    open.push_back(std::make_unique<DurableFile>(of.path));
    open.back()->write(of.text);
    open.back()->sync();
  }
  for (const auto& file : open) file->commit();
}

}  // namespace octet
