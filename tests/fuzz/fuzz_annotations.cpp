// Annotations and detections of any bytes are refused with a UsageError, or read to labels and images that exist.
#include <cstdlib>
#include <sstream>

#include "kernels/base/error.h"
#include "src/data/annotations/annotation_files.h"
#include "src/data/annotations/json_lists.h"

namespace {

void check(const octet::Annotations& all) {
  if (all.classes.empty() || all.classes.size() != all.category_ids.size()) abort();
  for (const octet::AnnotatedImage& image : all.images)
    for (const octet::Object& object : image.objects)
      if (object.label < 0 || object.label >= static_cast<int32_t>(all.classes.size())) abort();
}

void read_results(std::istream& stream) {
  using Kind = octet::JsonField::Kind;
  int64_t next = 0;
  const auto take = [&](int64_t index, std::vector<octet::JsonValue>& values) {
    if (index != next++ || values.size() != 4) abort();
    for (const octet::JsonValue& value : values)
      if (!value.present) abort();
  };
  octet::read_json_lists(
      stream, "input",
      {{"",
        {{"image_id", Kind::name}, {"category_id", Kind::name}, {"bbox", Kind::box}, {"score", Kind::number}},
        take}});
}

}  // namespace

// The first byte selects the reader.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::istringstream stream(text);
  try {
    if (data[0] % 3 == 0) {
      check(octet::parse_coco(stream, "input"));
    } else if (data[0] % 3 == 1) {
      for (const octet::VocObject& object : octet::parse_voc(text, "input").objects)
        if (object.name.empty()) abort();
    } else {
      read_results(stream);
    }
  } catch (const octet::UsageError&) {
  }
  return 0;
}
