#include "src/report/pictures/draw_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "kernels/base/text.h"
#include "src/report/pictures/pango_library.h"

namespace octet {
namespace {

constexpr double line_of_font = 1.2;  // height of a line, where the size of the font is 1

std::string valid_utf8(const PangoLibrary& pango, const std::string& text) {
  char* const valid = pango.make_valid(text.data(), static_cast<gssize>(text.size()));
  std::string result = valid;
  pango.free(valid);
  return result;
}

}  // namespace

Raster letters_of_text(const std::string& text, int height) {
  const PangoLibrary* const pango = pango_library();
  if (pango == nullptr) return {};
  const auto owned = [&]<class Object>(Object* object) {
    return std::unique_ptr<Object, std::function<void(Object*)>>(object, [pango](Object* of) { pango->unref(of); });
  };
  const auto fonts = owned(pango->new_fonts());
  const auto context = owned(pango->new_context(fonts.get()));
  const auto layout = owned(pango->new_layout(context.get()));
  PangoFontDescription* const font = pango->font_named("sans-serif");
  pango->set_font_size(font, PANGO_SCALE * std::max(1.0, height / line_of_font));
  pango->set_font(layout.get(), font);
  pango->free_font(font);
  pango->set_single_paragraph(layout.get(), TRUE);
  const std::string shown = valid_utf8(*pango, printable(text));
  pango->set_text(layout.get(), shown.data(), static_cast<int>(shown.size()));
  int width = 0, rows = 0;
  pango->get_pixel_size(layout.get(), &width, &rows);
  Raster letters(std::max(rows, 1), std::max(width, 1), 1);
  std::ranges::fill(letters.bytes(), uint8_t{0});
  FT_Bitmap bitmap{};
  bitmap.rows = static_cast<unsigned>(letters.rows);
  bitmap.width = static_cast<unsigned>(letters.cols);
  bitmap.pitch = static_cast<int>(letters.step);
  bitmap.buffer = letters.data;
  bitmap.num_grays = 256;
  bitmap.pixel_mode = FT_PIXEL_MODE_GRAY;
  pango->render(&bitmap, layout.get(), 0, 0);
  return letters;
}

}  // namespace octet
