#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "kernels/base/durable_file.h"
#include "src/run/metrics.h"
#include "src/train/epoch_sums.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

// CRC-32C bit by bit: long division by the reflected polynomial, independent of any table.
uint32_t crc32c(const std::string& bytes) {
  uint32_t remainder = 0xFFFFFFFF;
  for (const char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t in = (static_cast<unsigned char>(byte) >> bit) & 1;
      remainder = ((remainder ^ in) & 1) != 0 ? (remainder >> 1) ^ 0x82F63B78 : remainder >> 1;
    }
  return ~remainder;
}
uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8;
  return (rotated >> 17) | (rotated << 15);
}

// What cannot be read is not taken for empty, and written over.
TEST(Records, ThatCannotBeReadAreKept) {
  const TemporaryDirectory directory;
  const std::filesystem::path link = std::filesystem::path(directory.path()) / "metrics.jsonl";
  std::filesystem::create_symlink("/proc/self/mem", link);  // its first byte is a read error
  EXPECT_THROW(MetricsWriter(directory.path(), 3), FileError);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST(Records, NeitherDeepNorLong) {
  const TemporaryDirectory directory;
  const std::string file = directory / "metrics.jsonl";
  std::vector<int> steps;
  const auto read = [&](const std::string& line) {
    write_file(file, "{\"step\": 1}\nhalf {\n" + line + "\n{\"step\": 2, \"counts\": [3, 4]}\n");
    steps.clear();
    return refusal([&] {
      for_each_record(file, [&](const nlohmann::json& record, const std::string&) { steps.push_back(record["step"]); });
    });
  };
  EXPECT_EQ(read("{}"), "accepted");
  EXPECT_EQ(steps, (std::vector<int>{1, 2}));
  EXPECT_PART(read(std::string(1000, '[')), "metrics.jsonl:3: octet did not write this");
  EXPECT_PART(read("{\"step\": 1, \"counts\": [[]]}"), "metrics.jsonl:3: octet did not write this");
  EXPECT_PART(read(std::string((1 << 20) + 1, ' ')), "metrics.jsonl:3: octet did not write this");
}

TEST(Crc32c, KnownValues) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
}

// A reader of the wire format of our messages, written from its specification: field -> values.
struct WireField {
  uint32_t number = 0, type = 0;
  uint64_t integer = 0;
  std::string bytes;
};
std::vector<WireField> fields_of(const std::string& message) {
  std::vector<WireField> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < message.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message[at++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < message.size()) {
    const uint64_t tag = varint();
    WireField field{.number = static_cast<uint32_t>(tag >> 3), .type = static_cast<uint32_t>(tag & 7), .bytes = {}};
    if (field.type == 0) {
      field.integer = varint();
    } else {
      const size_t size = field.type == 1 ? 8 : field.type == 5 ? 4 : varint();
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(field);
  }
  return fields;
}

// The checked records of a TFRecord file.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  size_t at = 0;
  while (at < file.size()) {
    uint64_t length = 0;
    uint32_t length_crc = 0, data_crc = 0;
    EXPECT_LE(at + 16, file.size());
    std::memcpy(&length, file.data() + at, 8);
    std::memcpy(&length_crc, file.data() + at + 8, 4);
    EXPECT_EQ(unmasked(length_crc), crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    std::memcpy(&data_crc, file.data() + at + 12 + length, 4);
    EXPECT_EQ(unmasked(data_crc), crc32c(records.back()));
    at += 16 + length;
  }
  EXPECT_EQ(at, file.size());
  return records;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<int64_t> steps_of(const std::string& events) {
  std::vector<int64_t> steps;
  for (const std::string& record : records_of(events))
    for (const WireField& field : fields_of(record))
      if (field.number == 2) steps.push_back(static_cast<int64_t>(field.integer));
  return steps;
}

class Metrics : public ::testing::Test {
 protected:
  static std::vector<Scalar> scalars(double loss) { return {{"loss", loss}, {"top1", 0.5}}; }
  std::string file(const std::string& name) const { return read_file(directory / name); }
  // The lines without the time and the host at their ends, which each must have.
  static std::string unstamped(const std::string& lines) {
    static const std::regex stamp(R"(,"time":[0-9]{10}\.[0-9]+,"host":"[^"]+"\})");
    return std::regex_replace(lines, stamp, "}");
  }
  TemporaryDirectory directory;
  static constexpr const char *kEvents = "events.out.tfevents.octet", *kResumed = "events.out.tfevents.octet.0001";
};

TEST_F(Metrics, WritesLines) {
  MetricsWriter writer(directory.path(), -1);
  writer.write(50, "train", scalars(1.25));
  writer.write(100, "test", scalars(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(unstamped(file("metrics.jsonl")),  // already there: each line is written at once
            "{\"step\":50,\"kind\":\"train\",\"loss\":1.25,\"top1\":0.5}\n"
            "{\"step\":100,\"kind\":\"test\",\"loss\":null,\"top1\":0.5}\n");
  const std::vector<ClipRecord> clips = {{"conv1", 0.5, 0.001, 0.98, 0.0007}, {"conv2", 0.25, 0.002, 0.96, 0}};
  writer.write_clips(100, clips);
  EXPECT_EQ(file("clips.jsonl"),
            "{\"step\":100,\"layer\":\"conv1\",\"clip\":0.5,\"d_c\":0.001,\"lr_scale\":0.98,\"saturated\":0.0007}\n"
            "{\"step\":100,\"layer\":\"conv2\",\"clip\":0.25,\"d_c\":0.002,\"lr_scale\":0.96,\"saturated\":0.0}\n");
}

TEST_F(Metrics, AnEpochIsOneRecord) {
  MetricsWriter writer(directory.path(), -1);
  writer.write_epoch(16, {.epoch = 2, .steps = 8, .seconds = 1.5, .means = scalars(0.25), .learning_rate = 0.1});
  EXPECT_EQ(unstamped(file("metrics.jsonl")),
            "{\"step\":16,\"kind\":\"epoch\",\"epoch\":2,\"steps\":8,\"seconds\":1.5,\"loss\":0.25,\"top1\":0.5,"
            "\"learning_rate\":0.1}\n");
  const std::string events = file(kEvents);
  EXPECT_PART(events, "epoch/loss");
  EXPECT_PART(events, "epoch/learning_rate");
  EXPECT_EQ(events.find("epoch/seconds"), events.npos);
}

// A checkpoint within an epoch keeps every bit of the sums.
TEST(EpochSums, GoOnFromTheirText) {
  const auto report_of = [](int step) {
    StepReport report{.figures = {{"loss", 1.0 / (3 + step)}, {"top1", 0.1 * step}}};
    report.skipped = step == 2;
    return report;
  };
  EpochSums whole, resumed;
  for (int step = 0; step < 5; ++step) {
    whole.add(report_of(step), 0.1);
    resumed = EpochSums::from_text(resumed.text());
    resumed.add(report_of(step), 0.1);
  }
  const EpochRecord a = whole.record(3), b = resumed.record(3);
  EXPECT_EQ(a.steps, 5);
  EXPECT_EQ(a.epoch, 3);
  EXPECT_NEAR(a.seconds, 0.5, 1e-12);
  ASSERT_EQ(a.means.size(), 2u);
  EXPECT_NEAR(a.means[1].value, (0 + 0.1 + 0.3 + 0.4) / 4, 1e-12) << "a skipped step is in no mean";
  ASSERT_EQ(b.means.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(a.means[i].value, b.means[i].value);
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_TRUE(EpochSums().record(1).means.empty());
}

TEST_F(Metrics, EventFileIsTensorBoards) {
  MetricsWriter writer(directory.path(), -1);
  writer.write(300, "train", scalars(1.25));
  const auto records = records_of(file(kEvents));
  ASSERT_EQ(records.size(), 2u);
  const auto first = fields_of(records[0]);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].number, 1u);
  EXPECT_EQ(first[0].bytes.size(), 8u);
  EXPECT_EQ(first[1].number, 3u);
  EXPECT_EQ(first[1].bytes, "brain.Event:2");

  const auto event = fields_of(records[1]);
  ASSERT_EQ(event.size(), 3u);
  double wall_time = 0;
  std::memcpy(&wall_time, event[0].bytes.data(), 8);
  EXPECT_NEAR(wall_time, static_cast<double>(time(nullptr)), 60);
  EXPECT_EQ(event[1].number, 2u);
  EXPECT_EQ(event[1].integer, 300u);
  EXPECT_EQ(event[2].number, 5u);
  const auto values = fields_of(event[2].bytes);
  ASSERT_EQ(values.size(), 2u);
  const auto value = fields_of(values[0].bytes);
  ASSERT_EQ(value.size(), 2u);
  EXPECT_EQ(values[0].number, 1u);
  EXPECT_EQ(value[0].number, 1u);
  EXPECT_EQ(value[0].bytes, "train/loss");
  EXPECT_EQ(value[1].number, 2u);
  EXPECT_EQ(value[1].type, 5u);
  float simple_value = 0;
  std::memcpy(&simple_value, value[1].bytes.data(), 4);
  EXPECT_EQ(simple_value, 1.25f);
}

// Field `number` of a message, through several levels.
std::string bytes_in(std::string message, std::initializer_list<uint32_t> path) {
  for (const uint32_t number : path) {
    const auto fields = fields_of(message);
    const auto found = std::ranges::find(fields, number, &WireField::number);
    if (found == fields.end()) return "none";
    message = found->bytes;
  }
  return message;
}

TEST_F(Metrics, EventFileHoldsSettingsAndPictures) {
  Config config;
  config.train.lr = 0.25;
  MetricsWriter writer(directory.path(), -1);
  writer.write_settings(config);
  writer.write_picture(7, "train/images", 3, 2, "bytes of a PNG");
  const auto records = records_of(file(kEvents));
  ASSERT_EQ(records.size(), 3u);
  std::vector<std::string> values;
  for (const WireField& value : fields_of(bytes_in(records[1], {5}))) values.push_back(value.bytes);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(bytes_in(values[0], {1}), "recipe");
  EXPECT_EQ(bytes_in(values[0], {9, 1, 1}), "text");
  EXPECT_PART(bytes_in(values[0], {8, 8}), "    train:\n");
  EXPECT_EQ(bytes_in(values[1], {1}), "_hparams_/session_start_info");
  EXPECT_EQ(bytes_in(values[1], {9, 1, 1}), "hparams");
  EXPECT_PART(bytes_in(values[1], {9, 1, 2, 3}), "train.lr");
  EXPECT_EQ(bytes_in(values[1], {9, 1, 2, 3}).find("train.momentum"), std::string::npos) << "a default";
  EXPECT_EQ(bytes_in(records[2], {5, 1, 1}), "train/images");
  EXPECT_EQ(bytes_in(records[2], {5, 1, 4, 4}), "bytes of a PNG");
}

TEST_F(Metrics, ResumeDropsWhatCameAfterTheCheckpoint) {
  const std::vector<ClipRecord> clips = {{"conv1", 0.5, 0.001, 0.98, 0.0007}};
  {
    MetricsWriter writer(directory.path(), -1);
    for (const int64_t step : {10, 20, 30, 40}) {
      writer.write(step, "train", scalars(static_cast<double>(step)));
      writer.write_clips(step, clips);
    }
  }
  const auto before = lines_of(file("metrics.jsonl"));
  std::ofstream(directory / "metrics.jsonl", std::ios::app) << "{\"step\":5,\"ki";  // a crash in a line
  const std::string events = file(kEvents);
  {
    MetricsWriter writer(directory.path(), 20);
    writer.write(21, "train", scalars(0));
  }
  const auto after = lines_of(file("metrics.jsonl"));
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[1], before[1]);
  EXPECT_EQ(nlohmann::json::parse(after[2])["step"], 21);
  EXPECT_EQ(lines_of(file("clips.jsonl")).size(), 2u);
  EXPECT_EQ(file(kEvents), events) << "readers hold it open";
  EXPECT_EQ(steps_of(file(kResumed)), (std::vector<int64_t>{21, 21}));  // the start of a session, and the event
  EXPECT_EQ(records_of(file(kResumed)).size(), 3u);
}

// TensorBoard forgets what it has read of this step and of later ones.
TEST_F(Metrics, AResumedRunStartsASession) {
  { MetricsWriter(directory.path(), -1).write(30, "train", scalars(1)); }
  { MetricsWriter(directory.path(), 20).write(21, "train", scalars(1)); }
  const auto start = fields_of(records_of(file(kResumed))[1]);
  ASSERT_EQ(start.size(), 3u);
  EXPECT_EQ(start[1].integer, 21u);
  EXPECT_EQ(start[2].number, 7u);
  ASSERT_EQ(fields_of(start[2].bytes).size(), 1u);
  EXPECT_EQ(fields_of(start[2].bytes)[0].integer, 1u);
  { MetricsWriter(directory.path(), 20).write(21, "train", scalars(1)); }
  EXPECT_EQ(records_of(file(std::string(kEvents) + ".0002")).size(), 3u);
  std::filesystem::remove(directory / kEvents);
  { MetricsWriter(directory.path(), 20); }
  EXPECT_FALSE(std::filesystem::exists(directory / kEvents)) << "it would come before the others";
  EXPECT_TRUE(std::filesystem::exists(directory / (std::string(kEvents) + ".0003")));
}

// In proto3 a number without a presence is not written where it is 0.
TEST_F(Metrics, AZeroIsWritten) {
  MetricsWriter writer(directory.path(), -1);
  writer.write(1, "test", std::vector<Scalar>{{"mAP", 0}});
  const auto event = fields_of(records_of(file(kEvents))[1]);
  const auto value = fields_of(fields_of(event[2].bytes)[0].bytes);
  ASSERT_EQ(value.size(), 2u);
  EXPECT_EQ(value[1].number, 2u);
  EXPECT_EQ(value[1].bytes, std::string(4, '\0'));
}

TEST_F(Metrics, ANewRunStartsEmpty) {
  { MetricsWriter(directory.path(), -1).write(10, "train", scalars(1)); }
  MetricsWriter writer(directory.path(), -1);
  EXPECT_EQ(file("metrics.jsonl"), "");
  EXPECT_EQ(records_of(file(kEvents)).size(), 1u);
  { MetricsWriter(directory.path(), 5); }
  MetricsWriter(directory.path(), -1);
  EXPECT_FALSE(std::filesystem::exists(directory / kResumed));
}

TEST_F(Metrics, AFullDiskWarnsAndTrainingGoesOn) {
  MetricsWriter writer(directory.path(), -1);
  rlimit whole{};
  getrlimit(RLIMIT_FSIZE, &whole);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{100, whole.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  for (int64_t step = 1; step <= 10; ++step) EXPECT_NO_THROW(writer.write(step, "train", scalars(1)));
  setrlimit(RLIMIT_FSIZE, &whole);
  signal(SIGXFSZ, handler);
  EXPECT_LE(file("metrics.jsonl").size(), 100u);
  writer.write(11, "train", scalars(1));  // there is space again
  const auto lines = lines_of(file("metrics.jsonl"));
  ASSERT_FALSE(lines.empty());
  EXPECT_PART(lines.back(), "\"step\":11");
  for (const std::string& line : lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;  // none is torn
  ASSERT_FALSE(steps_of(file(kEvents)).empty());
  EXPECT_EQ(steps_of(file(kEvents)).back(), 11);
}

TEST_F(Metrics, ARecordThatWasEditedIsNamed) {
  write_file(directory / "metrics.jsonl", "{\"step\":1,\"kind\":\"train\"}\n{\"step\":2,\"kind\":5}\n");
  const MetricsWriter writer(directory.path(), 3);
  EXPECT_PART(refusal([&] { writer.holds(2, "test"); }), "metrics.jsonl:2: octet did not write this record");
  write_file(directory / "clips.jsonl", "{\"step\":\"one\"}\n");
  EXPECT_PART(refusal([&] { MetricsWriter(directory.path(), 3); }), "clips.jsonl:1: ");
}

TEST_F(Metrics, NeedsItsDirectory) {
  EXPECT_PART(refusal([&] { MetricsWriter(directory / "none", -1); }), "metrics.jsonl.tmp': open: No such file");
}

}  // namespace
}  // namespace octet
