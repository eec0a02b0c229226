#include "src/run/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/base/durable_file.h"

namespace octet {

LineFile::LineFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666)) {
  if (descriptor_ >= 0) end_ = lseek(descriptor_, 0, SEEK_END);
  if (descriptor_ < 0 || end_ < 0)
    throw FileError(__FILE__, __LINE__, say("'", path, "': open: ", std::strerror(errno)),
                    "check the free space, the quota and the permissions of its directory");
}

LineFile::~LineFile() { close(descriptor_); }

bool LineFile::deleted() const { return was_deleted(descriptor_, path_); }

bool LineFile::append(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written =
        pwrite(descriptor_, text.data() + done, text.size() - done, end_ + static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      // Should this fail too, the next line overwrites what remains.
      [[maybe_unused]] const int cut = ftruncate(descriptor_, end_);
      return false;
    }
    done += static_cast<size_t>(written);
  }
  end_ += static_cast<int64_t>(text.size());
  return true;
}

}  // namespace octet
