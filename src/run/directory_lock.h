// Locks a directory against other processes, on all machines that share the file system. Two trainings in one directory
// would mix their checkpoints.
#pragma once
#include <limits>
#include <string>

#include "kernels/base/error.h"

namespace octet {

// Another process uses the directory. Exit code 75, "try again later".
class InUseError : public Error {
 public:
  InUseError(const std::string& what, const std::string& fix) : Error(what, fix) {}
};

// The lock is held during the object's lifetime. The kernel releases it whenever and however the process ends.
class DirectoryLock {
 public:
  enum class Wait { a_little, as_long_as_it_takes };
  // Wait::a_little: if another process holds the lock, waits five seconds, so that a killed process can end. Waits two
  // minutes if that process is on another machine, since a file server keeps the locks of a lost machine that long.
  // Then throws InUseError, which names the process. longest: the longest wait, in seconds. If the file system has no
  // locks, this warns and holds no lock.
  explicit DirectoryLock(const std::string& directory, Wait = Wait::a_little,
                         double longest = std::numeric_limits<double>::infinity());
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  // Whether the locked file was deleted meanwhile. Another process can then lock a new one.
  bool deleted() const;
  // Whether a process holds the lock now.
  static bool held(const std::string& directory);

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace octet
