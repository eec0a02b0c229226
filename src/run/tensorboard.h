// TensorBoard's event files: TFRecords of Event messages. A record consists of the length, the masked CRC-32C of the
// length, the bytes, and the masked CRC-32C of the bytes.
#pragma once
#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "src/config/config.h"
#include "src/graph/metrics.h"

namespace octet {

namespace tensorboard {
class Event;
}

class EventFile {
 public:
  // RUN/events.out.tfevents.octet of a new run (resumed_step: -1), whose older files are removed. A resumed run begins
  // another file behind those, since readers hold them open; its first events tell readers to forget the steps after
  // resumed_step. FileError: the file cannot be written.
  EventFile(const std::string& run_directory, int64_t resumed_step);
  // Write and flush one event. They return false if the write fails.
  bool write(int64_t step, std::span<const Scalar> scalars);
  // The recipe as text, and for TensorBoard's table of runs (hparams) the keys that differ from the defaults, beside
  // those by which runs are told apart.
  bool write_settings(const Config&);
  bool write_picture(int64_t step, const std::string& tag, int width, int height, const std::string& png);
  const std::string& path() const { return path_; }
  bool deleted() const;  // since it was opened

 private:
  bool append(const tensorboard::Event&);

  std::string path_;
  uint64_t size_ = 0;  // in bytes, of complete events
  std::ofstream stream_;
};

}  // namespace octet
