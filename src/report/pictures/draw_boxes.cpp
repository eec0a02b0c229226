#include "src/report/pictures/draw_boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "kernels/base/durable_file.h"
#include "src/data/images/encode_image.h"
#include "src/report/page.h"
#include "src/report/pictures/draw_text.h"

namespace octet {
namespace {

constexpr int readable_side = 512;  // a picture whose longer side is shorter is enlarged

// Sizes that follow the picture's.
struct Style {
  int line;    // width of a box's line, in pixels
  int text;    // height of a line of text
  int margin;  // around a text
};

Style style_of(const cv::Mat& picture) {
  const double side = std::max(picture.cols, picture.rows);
  const double text = std::clamp(side / 40, 16.0, 40.0);
  return {.line = std::max(2, static_cast<int>(std::lround(side / 350))),
          .text = static_cast<int>(std::lround(text)),
          .margin = static_cast<int>(std::lround(text / 6))};
}

// Black or white, whichever is easier to read on `background`.
cv::Scalar text_color(const cv::Scalar& background) {
  const double brightness = 0.299 * background[0] + 0.587 * background[1] + 0.114 * background[2];
  return brightness > 140 ? cv::Scalar(0, 0, 0) : cv::Scalar(255, 255, 255);
}

void draw_dashed(cv::Mat& picture, cv::Point from, cv::Point to, const cv::Scalar& color, int line) {
  const int length = std::max(std::abs(to.x - from.x), std::abs(to.y - from.y)), dash = 6 * line;
  const auto at = [&](int distance) {
    const double share = length > 0 ? double(std::min(distance, length)) / length : 0;
    return cv::Point(from.x + static_cast<int>(std::lround(share * (to.x - from.x))),
                     from.y + static_cast<int>(std::lround(share * (to.y - from.y))));
  };
  for (int start = 0; start <= length; start += 2 * dash) cv::line(picture, at(start), at(start + dash), color, line);
}

void draw_frame(cv::Mat& picture, const cv::Rect& frame, const cv::Scalar& color, bool dashed, int line) {
  const cv::Point low = frame.tl(), high = frame.br() - cv::Point(1, 1);
  if (!dashed) {
    cv::rectangle(picture, low, high, color, line);
    return;
  }
  for (const cv::Point& other : {cv::Point(high.x, low.y), cv::Point(low.x, high.y)}) {
    draw_dashed(picture, low, other, color, line);
    draw_dashed(picture, other, high, color, line);
  }
}

struct Frame {
  const DrawnBox* box;
  cv::Rect rect;  // in pixels of the enlarged picture
};

// The frames of the boxes that a picture shows, large ones first, so that small ones stay visible.
std::vector<Frame> frames_of(std::span<const DrawnBox> boxes, int times, const cv::Size& picture) {
  const auto pixel = [&](double position, int end) {
    return static_cast<int>(std::lround(std::clamp<double>(position * times, 0, end)));
  };
  std::vector<Frame> frames;
  for (const DrawnBox& box : boxes) {
    const auto& [x, y, width, height] = box.box;
    const cv::Point low(pixel(x, picture.width), pixel(y, picture.height));
    const cv::Point high(pixel(x + width, picture.width), pixel(y + height, picture.height));
    if (high.x > low.x && high.y > low.y) frames.push_back({&box, cv::Rect(low, high)});
  }
  std::ranges::stable_sort(frames, std::greater<>(), [](const Frame& frame) { return frame.rect.area(); });
  return frames;
}

// Where the text of a frame fits best: above it, below it, at its sides, or inside. The first place that hides the
// least of other texts and of small frames.
cv::Rect place_of_text(const cv::Rect& frame, const cv::Size& size, const cv::Size& picture,
                       const std::vector<cv::Rect>& texts, const std::vector<Frame>& frames) {
  const int right = frame.br().x, bottom = frame.br().y;
  const std::array<cv::Point, 9> corners = {cv::Point(frame.x, frame.y - size.height),
                                            cv::Point(frame.x, bottom),
                                            cv::Point(right - size.width, frame.y - size.height),
                                            cv::Point(right - size.width, bottom),
                                            cv::Point(right, frame.y),
                                            cv::Point(frame.x - size.width, frame.y),
                                            cv::Point(frame.x, frame.y),
                                            cv::Point(frame.x, bottom - size.height),
                                            cv::Point(right - size.width, frame.y)};
  cv::Rect best;
  int least = -1;
  for (cv::Point corner : corners) {
    corner.x = std::clamp(corner.x, 0, std::max(0, picture.width - size.width));
    corner.y = std::clamp(corner.y, 0, std::max(0, picture.height - size.height));
    const cv::Rect place(corner, size);
    int hidden = 0;
    for (const cv::Rect& text : texts) hidden += 4 * (place & text).area();
    for (const Frame& other : frames)
      if (other.rect.area() < 8 * size.area()) hidden += (place & other.rect).area();
    if (least >= 0 && hidden >= least) continue;
    best = place, least = hidden;
    if (hidden == 0) break;
  }
  return best;
}

}  // namespace

cv::Scalar color_of_label(int32_t label) {
  // Hues are a golden angle apart, so that any few consecutive ones are spread around the circle.
  const double hue = std::fmod(137.50776 * label, 360), saturation = label % 2 == 0 ? 1 : 0.65;
  const auto channel = [&](double offset) {  // from Wikipedia, "HSL and HSV", conversion to RGB, with value 1
    const double k = std::fmod(offset + hue / 60, 6);
    return 255 * (1 - saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0));
  };
  return {channel(5), channel(3), channel(1)};
}

std::vector<DrawnBox> boxes_of(const AnnotatedImage& image, std::span<const std::string> classes) {
  std::vector<DrawnBox> boxes;
  for (const Object& object : image.objects) {
    std::string text = classes[static_cast<size_t>(object.label)];
    if (object.crowd) text += " (crowd)";
    if (object.difficult) text += " (difficult)";
    boxes.push_back({object.box, object.label, text, object.crowd || object.difficult});
  }
  return boxes;
}

std::vector<DrawnBox> boxes_of(std::span<const Detection> detections, std::span<const std::string> classes,
                               double least) {
  std::vector<DrawnBox> boxes;
  for (const Detection& found : detections)
    if (found.score >= least)
      boxes.push_back(
          {found.box, found.label, fmt::format("{} {:.2f}", classes[static_cast<size_t>(found.label)], found.score)});
  return boxes;
}

cv::Mat with_boxes(const cv::Mat& image, std::span<const DrawnBox> boxes) {
  const int times = std::max(1, readable_side / std::max(image.cols, image.rows));
  cv::Mat picture;
  cv::resize(image, picture, {image.cols * times, image.rows * times}, 0, 0, cv::INTER_NEAREST);
  const Style style = style_of(picture);
  const std::vector<Frame> frames = frames_of(boxes, times, picture.size());
  for (const auto& [box, rect] : frames) draw_frame(picture, rect, color_of_label(box->label), box->faint, style.line);
  std::vector<cv::Rect> texts;
  for (const auto& [box, rect] : frames) {
    if (box->text.empty()) continue;
    const cv::Scalar color = color_of_label(box->label);
    const cv::Mat letters = letters_of_text(box->text, style.text);
    const cv::Size size(letters.cols + 2 * style.margin, letters.rows);
    const cv::Rect place = place_of_text(rect, size, picture.size(), texts, frames);
    texts.push_back(place);
    cv::rectangle(picture, place, color, cv::FILLED);
    paint_letters(picture, letters, place.tl() + cv::Point(style.margin, 0), text_color(color));
  }
  return picture;
}

cv::Mat side_by_side(const cv::Mat& left, const std::string& left_title, const cv::Mat& right,
                     const std::string& right_title) {
  const Style style = style_of(left);
  const cv::Mat titles[] = {letters_of_text(left_title, style.text), letters_of_text(right_title, style.text)};
  const int head = std::max(titles[0].rows, titles[1].rows) + 2 * style.margin, gap = 2 * style.margin;
  cv::Mat both(head + std::max(left.rows, right.rows), left.cols + gap + right.cols, CV_8UC3, cv::Scalar::all(255));
  int x = 0;
  for (const auto& [picture, title] : {std::pair{&left, &titles[0]}, {&right, &titles[1]}}) {
    picture->copyTo(both(cv::Rect(x, head, picture->cols, picture->rows)));
    paint_letters(both, *title, {x + style.margin, style.margin}, cv::Scalar::all(0));
    x += picture->cols + gap;
  }
  return both;
}

std::string page_picture(const cv::Mat& rgb, std::vector<DrawnBox> boxes, int longest_side) {
  const double scale = std::min(1.0, 1.0 * longest_side / std::max(rgb.cols, rgb.rows));
  cv::Mat small = rgb;
  if (scale < 1) cv::resize(rgb, small, {}, scale, scale, cv::INTER_AREA);
  for (DrawnBox& box : boxes)
    box.box = {box.box.x * scale, box.box.y * scale, box.box.width * scale, box.box.height * scale};
  return jpeg_address(boxes.empty() ? small : with_boxes(small, boxes));
}

void write_picture(const std::string& path, const cv::Mat& rgb) {
  const std::vector<uint8_t> bytes = png_of(rgb);
  write_durably(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace octet
