#include "src/report/pictures/draw_boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/base/durable_file.h"
#include "src/data/images/encode_image.h"
#include "src/data/images/resize.h"
#include "src/report/page.h"
#include "src/report/pictures/draw_text.h"

namespace octet {
namespace {

constexpr Rgb black = {0, 0, 0}, white = {255, 255, 255};
constexpr int readable_side = 512;  // a picture whose longer side is shorter is enlarged

// Sizes that follow the picture's.
struct Style {
  int line;    // width of a box's line, in pixels
  int text;    // height of a line of text
  int margin;  // around a text
};

Style style_of(const Raster& picture) {
  const double side = std::max(picture.cols, picture.rows);
  const double text = std::clamp(side / 40, 16.0, 40.0);
  return {.line = std::max(2, static_cast<int>(std::lround(side / 350))),
          .text = static_cast<int>(std::lround(text)),
          .margin = static_cast<int>(std::lround(text / 6))};
}

// Black or white, whichever is easier to read on `background`.
Rgb text_color(const Rgb& background) {
  const double brightness = 0.299 * background[0] + 0.587 * background[1] + 0.114 * background[2];
  return brightness > 140 ? black : white;
}

// Dashes along the border of a frame, six times as long as the line is wide.
void draw_dashed(const Raster& picture, const PixelRect& frame, const Rgb& color, int line) {
  const int dash = 6 * line, before = line / 2;
  for (int x = frame.x; x < frame.right(); x += 2 * dash)
    for (const int y : {frame.y, frame.bottom() - 1})
      fill(picture, {x, y - before, std::min(dash, frame.right() - x), line}, color);
  for (int y = frame.y; y < frame.bottom(); y += 2 * dash)
    for (const int x : {frame.x, frame.right() - 1})
      fill(picture, {x - before, y, line, std::min(dash, frame.bottom() - y)}, color);
}

void draw_frame(const Raster& picture, const PixelRect& frame, const Rgb& color, bool dashed, int line) {
  dashed ? draw_dashed(picture, frame, color, line) : draw_rectangle(picture, frame, color, line);
}

struct Frame {
  const DrawnBox* box;
  PixelRect rect;  // in pixels of the enlarged picture
};

// The frames of the boxes that a picture shows, large ones first, so that small ones stay visible.
std::vector<Frame> frames_of(std::span<const DrawnBox> boxes, int times, const PixelSize& picture) {
  const auto pixel = [&](double position, int end) {
    return static_cast<int>(std::lround(std::clamp<double>(position * times, 0, end)));
  };
  std::vector<Frame> frames;
  for (const DrawnBox& box : boxes) {
    const auto& [x, y, width, height] = box.box;
    const PixelPoint low{pixel(x, picture.width), pixel(y, picture.height)};
    const PixelPoint high{pixel(x + width, picture.width), pixel(y + height, picture.height)};
    if (high.x > low.x && high.y > low.y)
      frames.push_back({&box, PixelRect{low.x, low.y, high.x - low.x, high.y - low.y}});
  }
  std::ranges::stable_sort(frames, std::greater<>(), [](const Frame& frame) { return frame.rect.area(); });
  return frames;
}

// Where the text of a frame fits best: above it, below it, at its sides, or inside. The first place that hides the
// least of other texts and of small frames.
PixelRect place_of_text(const PixelRect& frame, const PixelSize& size, const PixelSize& picture,
                        const std::vector<PixelRect>& texts, const std::vector<Frame>& frames) {
  const int right = frame.right(), bottom = frame.bottom();
  const std::array<PixelPoint, 9> corners = {PixelPoint{frame.x, frame.y - size.height},
                                             PixelPoint{frame.x, bottom},
                                             PixelPoint{right - size.width, frame.y - size.height},
                                             PixelPoint{right - size.width, bottom},
                                             PixelPoint{right, frame.y},
                                             PixelPoint{frame.x - size.width, frame.y},
                                             PixelPoint{frame.x, frame.y},
                                             PixelPoint{frame.x, bottom - size.height},
                                             PixelPoint{right - size.width, frame.y}};
  PixelRect best;
  int least = -1;
  for (PixelPoint corner : corners) {
    corner.x = std::clamp(corner.x, 0, std::max(0, picture.width - size.width));
    corner.y = std::clamp(corner.y, 0, std::max(0, picture.height - size.height));
    const PixelRect place{corner.x, corner.y, size.width, size.height};
    int hidden = 0;
    for (const PixelRect& text : texts) hidden += 4 * intersection(place, text).area();
    for (const Frame& other : frames)
      if (other.rect.area() < 8 * size.area()) hidden += intersection(place, other.rect).area();
    if (least >= 0 && hidden >= least) continue;
    best = place, least = hidden;
    if (hidden == 0) break;
  }
  return best;
}

}  // namespace

Rgb color_of_label(int32_t label) {
  // Hues are a golden angle apart, so that any few consecutive ones are spread around the circle.
  const double hue = std::fmod(137.50776 * label, 360), saturation = label % 2 == 0 ? 1 : 0.65;
  const auto channel = [&](double offset) {  // from Wikipedia, "HSL and HSV", conversion to RGB, with value 1
    const double k = std::fmod(offset + hue / 60, 6);
    return 255 * (1 - saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0));
  };
  const auto byte = [&](double offset) { return static_cast<uint8_t>(std::lround(channel(offset))); };
  return {byte(5), byte(3), byte(1)};
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

Raster with_boxes(const Raster& image, std::span<const DrawnBox> boxes) {
  const int times = std::max(1, readable_side / std::max(image.cols, image.rows));
  const Raster picture = enlarged(image, times);
  const Style style = style_of(picture);
  const std::vector<Frame> frames = frames_of(boxes, times, picture.size());
  for (const auto& [box, rect] : frames) draw_frame(picture, rect, color_of_label(box->label), box->faint, style.line);
  std::vector<PixelRect> texts;
  for (const auto& [box, rect] : frames) {
    if (box->text.empty()) continue;
    const Rgb color = color_of_label(box->label);
    const Raster letters = letters_of_text(box->text, style.text);
    if (letters.empty()) continue;
    const PixelSize size{letters.cols + 2 * style.margin, letters.rows};
    const PixelRect place = place_of_text(rect, size, picture.size(), texts, frames);
    texts.push_back(place);
    fill(picture, place, color);
    paint(picture, letters, {place.x + style.margin, place.y}, text_color(color));
  }
  return picture;
}

Raster side_by_side(const Raster& left, const std::string& left_title, const Raster& right,
                    const std::string& right_title) {
  const Style style = style_of(left);
  const Raster titles[] = {letters_of_text(left_title, style.text), letters_of_text(right_title, style.text)};
  const int head = std::max(titles[0].rows, titles[1].rows) + 2 * style.margin, gap = 2 * style.margin;
  const Raster both(head + std::max(left.rows, right.rows), left.cols + gap + right.cols);
  std::ranges::fill(both.bytes(), uint8_t{255});
  int x = 0;
  for (const auto& [picture, title] : {std::pair{&left, &titles[0]}, {&right, &titles[1]}}) {
    picture->copy_to(both.part({x, head, picture->cols, picture->rows}));
    paint(both, *title, {x + style.margin, style.margin}, black);
    x += picture->cols + gap;
  }
  return both;
}

std::string page_picture(const Raster& rgb, std::vector<DrawnBox> boxes, int longest_side) {
  const double scale = std::min(1.0, 1.0 * longest_side / std::max(rgb.cols, rgb.rows));
  const Raster small = shrunk(rgb, scale);
  for (DrawnBox& box : boxes)
    box.box = {box.box.x * scale, box.box.y * scale, box.box.width * scale, box.box.height * scale};
  return jpeg_address(boxes.empty() ? small : with_boxes(small, boxes));
}

void write_picture(const std::string& path, const Raster& rgb) {
  const std::vector<uint8_t> bytes = png_of(rgb);
  write_durably(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace octet
