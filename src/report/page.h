// The frame of HTML pages, and their parts. A page needs no other file.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "src/data/images/raster.h"

namespace octet {

// A whole page. title and sentence are text; body is HTML, whose percentages are kept from being broken.
std::string html_page(const std::string& title, const std::string& sentence, const std::string& body);
std::string tile(const std::string& value, const std::string& name);
// A list of names and texts; those without a text are left out.
std::string facts(const std::vector<std::pair<std::string, std::string>>& named);
// Text that is shown where the reader opens its summary.
std::string folded(const std::string& summary, const std::string& text);
// A box around a chart or a table. What is wider than the box is scrolled.
std::string card(const std::string& content);
// Of a chart in a card of a grid of three: its letters are readable there, and on a telephone.
inline constexpr int card_chart_width = 400;
// Cards beside each other; on a narrow screen below each other.
std::string card_grid(const std::string& cards, const char* columns = "two");
// A cell of a table with a bar of this length, 0 to 1.
std::string bar_cell(double share);
// Pictures as "data:" addresses. RGB, 8 bits.
std::string jpeg_address(const Raster& rgb);
std::string png_address(const Raster& rgb);

}  // namespace octet
