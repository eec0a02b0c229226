// The functions of Pango that octet calls. The library is loaded when a text is drawn: it brings 20 others with it.
#pragma once
#include <pango/pangoft2.h>

namespace octet {

#define OCTET_PANGO_FUNCTIONS(X)                                  \
  X(unref, g_object_unref)                                        \
  X(free, g_free)                                                 \
  X(make_valid, g_utf8_make_valid)                                \
  X(new_fonts, pango_ft2_font_map_new)                            \
  X(new_context, pango_font_map_create_context)                   \
  X(new_layout, pango_layout_new)                                 \
  X(font_named, pango_font_description_from_string)               \
  X(set_font_size, pango_font_description_set_absolute_size)      \
  X(free_font, pango_font_description_free)                       \
  X(set_font, pango_layout_set_font_description)                  \
  X(set_single_paragraph, pango_layout_set_single_paragraph_mode) \
  X(set_text, pango_layout_set_text)                              \
  X(get_pixel_size, pango_layout_get_pixel_size)                  \
  X(render, pango_ft2_render_layout)

struct PangoLibrary {
#define OCTET_DECLARE(member, function) decltype(&function) member = nullptr;
  OCTET_PANGO_FUNCTIONS(OCTET_DECLARE)
#undef OCTET_DECLARE
};

// Null where it is not installed, of which the first call warns.
const PangoLibrary* pango_library();

}  // namespace octet
