#include "src/run/tensorboard.h"

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "kernels/base/durable_file.h"
#include "src/run/event.pb.h"

namespace octet {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    table[byte] = byte;
    for (int bit = 0; bit < 8; ++bit) table[byte] = (table[byte] >> 1) ^ (table[byte] & 1 ? 0x82F63B78u : 0);
  }
  return table;
}

// CRC-32C (Castagnoli) with TensorFlow's mask, a rotation and an addition. Without it a CRC over bytes that contain
// CRCs would be weak.
uint32_t masked_crc(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <class Number>
std::string bytes_of(Number number) {  // little-endian, as on all machines that octet supports
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string record_of(const tensorboard::Event& event) {
  const std::string data = event.SerializeAsString(), length = bytes_of(uint64_t{data.size()});
  return length + bytes_of(masked_crc(length)) + data + bytes_of(masked_crc(data));
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The undamaged records at the start of `file`, without those of steps after `last`.
std::string kept_records(std::string_view file, int64_t last) {
  constexpr size_t kHead = 12, kTail = 4;
  std::string kept;
  while (file.size() >= kHead + kTail) {
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    if (file.substr(8, 4) != bytes_of(masked_crc(file.substr(0, 8))) || length > file.size() - kHead - kTail) break;
    const std::string_view data = file.substr(kHead, length);
    tensorboard::Event event;
    if (file.substr(kHead + length, kTail) != bytes_of(masked_crc(data)) ||
        !event.ParseFromArray(data.data(), static_cast<int>(data.size())))
      break;
    if (event.step() <= last) kept += file.substr(0, kHead + length + kTail);
    file.remove_prefix(kHead + length + kTail);
  }
  return kept;
}

}  // namespace

EventFile::EventFile(const std::string& path, int64_t resumed_step) : path_(path) {
  std::string kept = kept_records(read_if_there(path), resumed_step);
  if (kept.empty()) {
    tensorboard::Event first;
    first.set_wall_time(wall_seconds());
    first.set_file_version("brain.Event:2");
    kept = record_of(first);
  }
  write_durably(path, kept);
  size_ = kept.size();
  stream_.open(path, std::ios::binary | std::ios::app);
}

bool EventFile::deleted() const {
  std::error_code error;
  return !std::filesystem::exists(path_, error) && !error;
}

bool EventFile::write(int64_t step, std::span<const Scalar> scalars) {
  tensorboard::Event event;
  event.set_wall_time(wall_seconds());
  event.set_step(step);
  for (const Scalar& scalar : scalars) {
    auto* value = event.mutable_summary()->add_value();
    value->set_tag(scalar.name);
    value->set_simple_value(static_cast<float>(scalar.value));
  }
  const std::string record = record_of(event);
  stream_.write(record.data(), static_cast<std::streamsize>(record.size())).flush();
  if (stream_.good()) {
    size_ += record.size();
    return true;
  }
  // A partly written event would make all later events unreadable, so it is removed from file and buffer.
  stream_ = std::ofstream();
  std::error_code ignored;
  std::filesystem::resize_file(path_, size_, ignored);
  stream_.open(path_, std::ios::binary | std::ios::app);
  return false;
}

}  // namespace octet
