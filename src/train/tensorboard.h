// TensorBoard's event file: TFRecords (length, masked CRC-32C of it, bytes, masked CRC-32C of them) of Event messages.
#pragma once
#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "src/graph/metrics.h"

namespace octet {

class EventFile {
 public:
  // Keeps the events of steps <= resumed_step, drops the others and what is damaged, and appends from there on.
  // FileError: it cannot be written.
  EventFile(const std::string& path, int64_t resumed_step);
  // One event, flushed; false when the disk refuses.
  bool write(int64_t step, std::span<const Scalar> scalars);

 private:
  std::string path_;
  uint64_t size_ = 0;  // of whole events
  std::ofstream stream_;
};

}  // namespace octet
