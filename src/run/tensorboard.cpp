#include "src/run/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "kernels/base/durable_file.h"
#include "kernels/base/text.h"
#include "src/config/keys.h"
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

constexpr std::string_view first_name = "events.out.tfevents.octet";

std::vector<std::filesystem::path> event_files(const std::string& run_directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(run_directory))
    if (entry.path().filename().string().starts_with(first_name)) files.push_back(entry.path());
  return files;
}

// TensorBoard reads the files in the order of their names, so the new one comes last.
std::string next_path(const std::string& run_directory) {
  int number = 0;
  for (const auto& file : event_files(run_directory)) {
    const std::string extension = file.extension().string();  // ".octet" of the first, ".0001" of the second
    number = std::max(number, 1 + std::atoi(extension.c_str() + 1));
  }
  const std::string first = say(run_directory, "/", first_name);
  return number == 0 ? first : fmt::format("{}.{:04}", first, number);
}

tensorboard::Event event_at(int64_t step) {
  tensorboard::Event event;
  event.set_wall_time(wall_seconds());
  event.set_step(step);
  return event;
}

std::string indented(const std::string& text) {
  std::string all = "    ";
  for (const char c : text) all += c == '\n' ? std::string("\n    ") : std::string{c};
  return all;
}

// Numbers can be plotted against a figure, so they are numbers.
google::protobuf::Value hparam(const std::string& text) {
  google::protobuf::Value value;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text == "true" || text == "false")
    value.set_bool_value(text == "true");
  else if (!text.empty() && *end == '\0')
    value.set_number_value(number);
  else
    value.set_string_value(text.starts_with('"') ? text.substr(1, text.size() - 2) : text);
  return value;
}

}  // namespace

EventFile::EventFile(const std::string& run_directory, int64_t resumed_step) {
  if (resumed_step < 0)
    for (const auto& file : event_files(run_directory)) std::filesystem::remove(file);
  path_ = next_path(run_directory);
  tensorboard::Event first, start;
  first.set_wall_time(wall_seconds());
  first.set_file_version("brain.Event:2");
  start.set_wall_time(wall_seconds());
  start.set_step(resumed_step + 1);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  const std::string begin = record_of(first) + (resumed_step < 0 ? "" : record_of(start));
  write_durably(path_, begin);
  size_ = begin.size();
  stream_.open(path_, std::ios::binary | std::ios::app);
}

bool EventFile::deleted() const {
  std::error_code error;
  return !std::filesystem::exists(path_, error) && !error;
}

bool EventFile::write(int64_t step, std::span<const Scalar> scalars) {
  tensorboard::Event event = event_at(step);
  for (const Scalar& scalar : scalars) {
    auto* value = event.mutable_summary()->add_value();
    value->set_tag(scalar.name);
    value->set_simple_value(static_cast<float>(scalar.value));
  }
  return append(event);
}

bool EventFile::write_settings(const Config& config) {
  tensorboard::Event event = event_at(0);
  auto* text = event.mutable_summary()->add_value();
  text->set_tag("recipe");
  text->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  text->mutable_tensor()->set_dtype(7);
  text->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  text->mutable_tensor()->add_string_val(indented(to_yaml(config)));  // Markdown's form of code
  tensorboard::HParams settings;
  settings.mutable_session_start_info()->set_start_time_secs(event.wall_time());
  for (const auto& [key, value] : told_apart_by(config))
    (*settings.mutable_session_start_info()->mutable_hparams())[key] = hparam(value);
  auto* session = event.mutable_summary()->add_value();
  session->set_tag("_hparams_/session_start_info");
  session->mutable_metadata()->mutable_plugin_data()->set_plugin_name("hparams");
  session->mutable_metadata()->mutable_plugin_data()->set_content(settings.SerializeAsString());
  return append(event);
}

bool EventFile::write_picture(int64_t step, const std::string& tag, int width, int height, const std::string& png) {
  tensorboard::Event event = event_at(step);
  auto* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_image()->set_width(width);
  value->mutable_image()->set_height(height);
  value->mutable_image()->set_colorspace(3);
  value->mutable_image()->set_encoded_image_string(png);
  return append(event);
}

bool EventFile::append(const tensorboard::Event& event) {
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
