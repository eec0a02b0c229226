#include "src/data/images/training_sheet.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "kernels/base/error.h"
#include "src/data/images/encode_image.h"

namespace octet {
namespace {

constexpr int columns = 4, most_images = 16;
constexpr int longest_side = 256, gap = 4;  // of an image on the sheet, in pixels

// Empty: the image cannot be read.
cv::Mat small_input(const Dataset& data, int64_t index, uint64_t seed) {
  const ImageShape shape = data.canvas_shape(0);
  const cv::Mat pixels(static_cast<int>(shape.height), static_cast<int>(shape.width), CV_8UC4);
  Truth truth;
  try {
    if (!data.read_with_truth(index, true, seed, 0, pixels.data, truth)) return {};
  } catch (const Error&) {  // the training says so when it comes there
    return {};
  }
  cv::Mat colors;
  cv::cvtColor(pixels, colors, cv::COLOR_RGBA2RGB);
  const double scale = std::min(1.0, 1.0 * longest_side / std::max(colors.rows, colors.cols));
  if (scale < 1) cv::resize(colors, colors, {}, scale, scale, cv::INTER_AREA);
  for (const Truth::Object& object : truth.objects) {
    const auto at = [&](float x, float y) { return cv::Point(cvRound(x * scale), cvRound(y * scale)); };
    cv::rectangle(colors, at(object.box.x1, object.box.y1), at(object.box.x2, object.box.y2), {255, 70, 40}, 1);
  }
  return colors;
}

}  // namespace

Sheet training_sheet(const Dataset& data, uint64_t seed) {
  std::vector<int64_t> of_first_canvas;
  for (int64_t index = 0; index < data.size(); ++index)
    if (data.canvases() == 1 || data.canvas(index) == 0) of_first_canvas.push_back(index);
  std::vector<cv::Mat> images;
  const auto count = std::min<int64_t>(most_images, static_cast<int64_t>(of_first_canvas.size()));
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(i * static_cast<int64_t>(of_first_canvas.size()) / count);
    if (cv::Mat image = small_input(data, of_first_canvas[place], seed); !image.empty())
      images.push_back(std::move(image));
  }
  if (images.empty()) return {};
  const int width = images[0].cols + gap, height = images[0].rows + gap;
  const int rows = (static_cast<int>(images.size()) + columns - 1) / columns;
  cv::Mat sheet(rows * height - gap, std::min(columns, static_cast<int>(images.size())) * width - gap, CV_8UC3,
                cv::Scalar(255, 255, 255));
  for (int i = 0; i < static_cast<int>(images.size()); ++i)
    images[static_cast<size_t>(i)].copyTo(
        sheet(cv::Rect(i % columns * width, i / columns * height, width - gap, height - gap)));
  const std::vector<uint8_t> png = png_of(sheet);
  return {sheet.cols, sheet.rows, std::string(png.begin(), png.end())};
}

}  // namespace octet
