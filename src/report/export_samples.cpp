#include "src/report/export_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/durable_file.h"

namespace octet {
namespace {

constexpr size_t most_images = 32;
constexpr int64_t most_with_codes = 4;
constexpr size_t values_of_object = 6;

// numpy.lib.format, version 1.0: a header of a multiple of 64 bytes, then the values in C's order.
template <class T>
std::string npy(const char* type, const std::string& shape, const std::vector<T>& values) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\0", 8);
  text += char(header.size() & 255), text += char(header.size() >> 8);
  text += header;
  return text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// of: (images, H, W, C), codes of the tensor. Returns (images, C, H, W).
std::string codes_file(const IntegerTensor& tensor, int64_t images, const std::vector<std::byte>& of) {
  const Shape& shape = tensor.shape;
  std::vector<int16_t> codes;
  for (int64_t image = 0; image < images; ++image)
    for (int64_t c = 0; c < shape.c; ++c)
      for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) {
        const auto code = uint8_t(of[size_t((image * shape.pixels() + pixel) * shape.c + c)]);
        codes.push_back(tensor.type == DType::u8 ? int16_t(code) : int16_t(int8_t(code)));
      }
  return npy("<i2", fmt::format("{}, {}, {}, {}", images, shape.c, shape.h, shape.w), codes);
}

}  // namespace

void ExportSamples::take(Trainer& trainer, const Batch& batch, const Answers& answers) {
  if (codes_.empty()) {
    const int64_t images = std::min(batch.count, most_with_codes);
    const auto codes = trainer.codes(network_, batch, images);
    for (size_t i = 0; i < codes.size(); ++i)
      codes_.push_back(codes[i].empty() ? std::string() : codes_file(network_.tensors[i], images, codes[i]));
  }
  const Shape& shape = network_.tensors.front().shape;
  const Normalization& pixels = network_.pixels;
  const size_t classes = answers.logits.size() / size_t(batch.count);
  for (size_t i = 0; i < size_t(batch.count) && count_ < most_images; ++i) {
    if (batch.samples[i] < 0) continue;
    const auto* const image = static_cast<const uint8_t*>(batch.images) + i * size_t(shape.pixels() * pixel_channels);
    for (int64_t c = 0; c < shape.c; ++c)
      for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) {
        const uint8_t* const bytes = image + pixel * pixel_channels;  // where there is no pixel, x is 0
        images_.push_back((bytes[3] > 0 ? float(bytes[c]) : std::round(-pixels.shift(c) / pixels.scale(c))) / 255);
      }
    const auto row = answers.logits.begin() + ptrdiff_t(i * classes);
    answers_.insert(answers_.end(), row, row + ptrdiff_t(classes));
    if (network_.detector) take_objects(batch.targets.truth->images[i], answers);
    ++count_;
  }
}

void ExportSamples::take_objects(const Truth::Image& image, const Answers& answers) {
  const size_t end = answers_.size() + size_t(network_.detector->detections) * values_of_object;
  for (const Detection& of : answers.detections) {
    if (of.image != image.index) continue;
    const BoxInFile& box = of.box;
    for (const double value : {box.x * image.scale_x, box.y * image.scale_y, (box.x + box.width) * image.scale_x,
                               (box.y + box.height) * image.scale_y, double(of.score), double(of.label)})
      answers_.push_back(float(value));
  }
  answers_.resize(end);
}

void ExportSamples::write(const std::string& folder) const {
  const std::string fix = "name another folder for --check-with";
  make_directories(folder + "/codes", fix);
  const Shape& shape = network_.tensors.front().shape;
  write_durably(folder + "/images.npy",
                npy("<f4", fmt::format("{}, {}, {}, {}", count_, shape.c, shape.h, shape.w), images_));
  if (network_.detector)
    write_durably(
        folder + "/objects.npy",
        npy("<f4", fmt::format("{}, {}, {}", count_, network_.detector->detections, values_of_object), answers_));
  else
    write_durably(folder + "/logits.npy",
                  npy("<f4", fmt::format("{}, {}", count_, answers_.size() / count_), answers_));
  write_durably(folder + "/codes/images.npy", codes_.front());
  for (const IntegerOperation& of : network_.operations)
    if (!codes_[size_t(of.output)].empty())
      write_durably(say(folder, "/codes/", of.name, ".npy"), codes_[size_t(of.output)]);
}

}  // namespace octet
