// Images that cannot be read: they are an error, or are skipped and counted, as data.bad_images says.
#pragma once
#include <spdlog/spdlog.h>

#include <mutex>
#include <set>
#include <string>

#include "kernels/base/error.h"
#include "src/config/config.h"
#include "src/data/images/image_fault.h"

namespace octet {

// Thread-safe.
class BadImages {
 public:
  // data.bad_images may also be `refuse`, which is no value of the key: an error, where no training goes on.
  explicit BadImages(const Config::Data& data) : skip_(data.bad_images == "skip"), trains_(data.bad_images == "stop") {}

  // UsageError, unless bad images are skipped; then warns of each image once.
  void add(int64_t index, const std::string& file, const BadImage& bad) {
    const char* const other_fix = ", or set data.bad_images: skip (a training then goes on with --resume)";
    REQUIRE_USAGE(skip_, say(bad.fix, trains_ ? other_fix : ""), file, ": ", bad.what());
    std::lock_guard lock(mutex_);
    if (bad_.insert(index).second) spdlog::warn("skipped {}: {}", file, bad.what());
  }
  int64_t count() const {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(bad_.size());
  }

 private:
  const bool skip_, trains_;
  mutable std::mutex mutex_;
  std::set<int64_t> bad_;
};

}  // namespace octet
