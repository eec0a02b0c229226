// Files of a run and packs of any bytes are refused with an Error, or read to lists that agree, labels that have names
// and numbers that no sum of them exceeds. A target for each kind: READER is 0 .. 3.
#include <cmath>
#include <cstdlib>

#include "comm/heartbeat.h"
#include "kernels/base/error.h"
#include "src/data/sources/pack.h"
#include "src/run/result.h"
#include "src/tasks/classification/class_answers.h"

namespace {

void check_answers(const std::string& text) {
  const octet::ClassAnswers all = octet::parse_answers(text, "input");
  if (all.images > octet::most_answers || (!all.files.empty() && int64_t(all.files.size()) != all.images)) abort();
  for (const octet::Answer& answer : all.answers) {
    if (answer.image < 0 || answer.image >= all.images || answer.label < 0 || answer.predicted < 0) abort();
    const auto known = int32_t(all.classes.size());
    if (known > 0 && (answer.label >= known || answer.predicted >= known)) abort();
    if (answer.probability < 0 || answer.probability > 1) abort();
  }
}

void check_result(const std::string& text) {
  const octet::Result result = octet::parse_result(text, "input");
  if (result.epochs < 0 || result.steps < 0 || result.ranks < 0 || result.images < 0) abort();
  if (result.best && result.best->figures.empty()) abort();
}

void check_heartbeats(const std::string& text) {
  const octet::HeartbeatFile file = octet::parse_heartbeats(text);
  if (file.job && (file.job->ranks < 1 || file.job->ranks > octet::most_ranks)) abort();
  for (const octet::Heartbeat& beat : file.heartbeats) {
    if (beat.rank < 0 || beat.rank >= octet::most_ranks || beat.step < 0 || !std::isfinite(beat.own_seconds())) abort();
    octet::line_of(beat);
  }
}

void check_pack(const std::string& text) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const octet::PackIndex index = octet::read_pack_index(bytes, "input");
  for (const octet::PackedImage& image : index.images) {
    if (size_t(image.label) >= index.classes.size()) abort();
    const auto rows = bytes.subspan(image.offset, 3 * size_t{image.width} * image.height);
    volatile uint8_t last = rows.back();
    (void)last;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr void (*readers[])(const std::string&) = {check_answers, check_result, check_heartbeats, check_pack};
  try {
    readers[READER](std::string(reinterpret_cast<const char*>(data), size));
  } catch (const octet::Error&) {
  }
  return 0;
}
