// Keeps a second process out of a directory, on any machine that shares the file system: two trainings would mix their
// checkpoints.
#pragma once
#include <limits>
#include <string>

#include "kernels/base/error.h"

namespace octet {

// Another process works there; exit code 75, "try again later".
class InUseError : public Error {
 public:
  using Error::Error;
};

// Held while it lives; the kernel lets go when the process ends, however it ends.
class DirectoryLock {
 public:
  enum class Wait { a_little, as_long_as_it_takes };
  // Wait::a_little: InUseError, which names the process, after five seconds, in which a killed one ends; after two
  // minutes when it is on another machine, since a file server keeps the locks of a lost machine that long. File
  // systems without locks: a warning, and no lock. longest: seconds after which it is that error in any case.
  explicit DirectoryLock(const std::string& directory, Wait = Wait::a_little,
                         double longest = std::numeric_limits<double>::infinity());
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  // Whether a process holds it now.
  static bool held(const std::string& directory);

 private:
  int descriptor_;
};

}  // namespace octet
