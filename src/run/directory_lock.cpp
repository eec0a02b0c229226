#include "src/run/directory_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/base/durable_file.h"

namespace octet {
namespace {

constexpr double to_end = 5, to_be_lost = 120;  // seconds

std::string file_of(const std::string& directory) { return directory + "/lock"; }

std::string this_machine() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return host;
}

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The lock belongs to the open file, not to the process (F_OFD_...). Closing another descriptor of the file does not
// release it.
bool lock(int descriptor, DirectoryLock::Wait wait) {
  struct flock request = whole_file();
  int result;
  do {
    result = fcntl(descriptor, wait == DirectoryLock::Wait::a_little ? F_OFD_SETLK : F_OFD_SETLKW, &request);
  } while (result < 0 && errno == EINTR);
  return result == 0;
}

// "process 1234 on host", as the process that holds the lock wrote it.
std::string holder(int descriptor) {
  char text[512] = {};
  const ssize_t count = pread(descriptor, text, sizeof text - 1, 0);
  return count > 0 ? std::string(text, size_t(count)) : "another process";
}

// A file under one name, empty or as a lock is written.
bool is_ours(int descriptor) {
  struct stat file = {};
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode) || file.st_nlink > 1) return false;
  return file.st_size == 0 || holder(descriptor).starts_with("process ");
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory, Wait wait, double longest)
    : path_(file_of(directory)),
      descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666)) {
  REQUIRE_USAGE(descriptor_ >= 0, "choose a directory that can be written", "cannot open ", path_, ": ",
                std::strerror(errno));
  if (!is_ours(descriptor_)) {
    close(descriptor_);
    throw UsageError(__FILE__, __LINE__, say(path_, " is no lock of octet, and would be overwritten"), "move it away");
  }
  const std::string suffix = " on " + this_machine();
  const auto start = std::chrono::steady_clock::now();
  for (bool told = false; !lock(descriptor_, wait); told = true) {
    if (errno != EAGAIN && errno != EACCES) {
      spdlog::warn("{}: the file system has no locks ({}): make sure that no second process works in this directory",
                   directory, std::strerror(errno));
      return;
    }
    const std::string who = holder(descriptor_);
    const double patience = std::min(who.ends_with(suffix) ? to_end : to_be_lost, longest);
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(patience)) {
      close(descriptor_);
      throw InUseError(say(directory, " is in use by ", who), "wait until it ends, or choose another directory");
    }
    if (!told) spdlog::info("{} is in use by {}: waiting {} s for it to end", directory, who, patience);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const std::string self = say("process ", getpid(), suffix);
  if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, self.data(), self.size(), 0) < 0)
    spdlog::warn("{}: cannot be written: {}", path_, std::strerror(errno));
}

DirectoryLock::~DirectoryLock() { close(descriptor_); }

bool DirectoryLock::deleted() const { return was_deleted(descriptor_, path_); }

bool DirectoryLock::held(const std::string& directory) {
  const int descriptor = open(file_of(directory).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  struct flock other = whole_file();
  const bool held = fcntl(descriptor, F_OFD_GETLK, &other) == 0 && other.l_type != F_UNLCK;
  close(descriptor);
  return held;
}

}  // namespace octet
