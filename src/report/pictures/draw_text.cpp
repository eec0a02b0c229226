#include "src/report/pictures/draw_text.h"

#include <pango/pangoft2.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/base/text.h"

namespace octet {
namespace {

struct Unref {
  void operator()(void* object) const { g_object_unref(object); }
};
template <class Object>
using Owned = std::unique_ptr<Object, Unref>;

constexpr double line_of_font = 1.2;  // height of a line, where the size of the font is 1

std::string valid_utf8(const std::string& text) {
  char* const valid = g_utf8_make_valid(text.data(), static_cast<gssize>(text.size()));
  std::string result = valid;
  g_free(valid);
  return result;
}

}  // namespace

cv::Mat letters_of_text(const std::string& text, int height) {
  const Owned<PangoFontMap> fonts(pango_ft2_font_map_new());
  const Owned<PangoContext> context(pango_font_map_create_context(fonts.get()));
  const Owned<PangoLayout> layout(pango_layout_new(context.get()));
  PangoFontDescription* const font = pango_font_description_from_string("sans-serif");
  pango_font_description_set_absolute_size(font, PANGO_SCALE * std::max(1.0, height / line_of_font));
  pango_layout_set_font_description(layout.get(), font);
  pango_font_description_free(font);
  pango_layout_set_single_paragraph_mode(layout.get(), TRUE);
  const std::string shown = valid_utf8(printable(text));
  pango_layout_set_text(layout.get(), shown.data(), static_cast<int>(shown.size()));
  int width = 0, rows = 0;
  pango_layout_get_pixel_size(layout.get(), &width, &rows);
  cv::Mat letters(std::max(rows, 1), std::max(width, 1), CV_8UC1, cv::Scalar(0));
  FT_Bitmap bitmap{};
  bitmap.rows = static_cast<unsigned>(letters.rows);
  bitmap.width = static_cast<unsigned>(letters.cols);
  bitmap.pitch = static_cast<int>(letters.step);
  bitmap.buffer = letters.data;
  bitmap.num_grays = 256;
  bitmap.pixel_mode = FT_PIXEL_MODE_GRAY;
  pango_ft2_render_layout(&bitmap, layout.get(), 0, 0);
  return letters;
}

void paint_letters(cv::Mat& picture, const cv::Mat& letters, cv::Point corner, const cv::Scalar& color) {
  for (int y = std::max(0, -corner.y); y < std::min(letters.rows, picture.rows - corner.y); ++y)
    for (int x = std::max(0, -corner.x); x < std::min(letters.cols, picture.cols - corner.x); ++x) {
      auto& pixel = picture.at<cv::Vec3b>(corner.y + y, corner.x + x);
      const double share = letters.at<uint8_t>(y, x) / 255.0;
      for (int channel = 0; channel < 3; ++channel)
        pixel[channel] = cv::saturate_cast<uint8_t>(share * color[channel] + (1 - share) * pixel[channel]);
    }
}

}  // namespace octet
