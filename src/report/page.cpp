#include "src/report/page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

#include "src/data/images/encode_image.h"
#include "src/report/charts/svg.h"

namespace octet {
namespace {

// Classes c0 to c9 and d0 to d7 are the colors of charts; on dark paper they are lighter.
constexpr const char* style = R"(
:root{--paper:#f8fafc;--card:#fff;--ink:#1e293b;--soft:#64748b;--grid:#e2e8f0;--accent:#2563eb;--wrong:#dc2626;--hit:#2563eb;--miss:#dc2626}
@media(prefers-color-scheme:dark){:root{--paper:#0f172a;--card:#1e293b;--ink:#e2e8f0;--soft:#94a3b8;--grid:#334155;--accent:#60a5fa;--wrong:#f87171;--hit:#3b82f6;--miss:#ef4444}
.c0{color:#60a5fa}.c1{color:#f87171}.c2{color:#34d399}.c3{color:#fbbf24}.c4{color:#a78bfa}.c5{color:#22d3ee}.c6{color:#f472b6}.c7{color:#a3e635}.c8{color:#cbd5e1}.c9{color:#fdba74}
.d0{color:#a06bd0}.d1{color:#8f7fe0}.d2{color:#7895e8}.d3{color:#5fabe0}.d4{color:#4cc0c4}.d5{color:#52d29b}.d6{color:#8be065}.d7{color:#d9e84a}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,-apple-system,'DejaVu Sans',sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 24px 64px}h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:19px;margin:40px 0 4px}
p{margin:4px 0 14px;color:var(--soft);max-width:80ch;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(148px,1fr));gap:12px;margin:20px 0}.tile.long{grid-column:span 2}
.tile{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:12px 16px;min-width:0}
.tile b{display:block;font-size:21px;font-weight:650;overflow-wrap:break-word}.tile.long b{font-size:17px;line-height:32px}.tile span{color:var(--soft);font-size:13px}
.two,.three{display:grid;gap:16px;margin-bottom:16px}.two{grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr))}dl{display:grid;grid-template-columns:auto 1fr;gap:2px 16px;margin:12px 0;font-size:14px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}code{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:13px}
.stack{min-width:0}.stack .card{margin-bottom:16px}
.three{grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr))}
.card{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:14px;min-width:0;overflow:auto}
table{border-collapse:collapse;background:var(--card);font-variant-numeric:tabular-nums;width:100%}
th,td{border:solid var(--grid);border-width:0 0 1px;padding:5px 10px;text-align:right;white-space:nowrap}th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:break-word}
svg{width:100%;height:auto;display:block}main>details{margin-top:32px}.card details{font-size:14px;margin:4px 8px}.card details p{margin:4px 0}summary{cursor:pointer;color:var(--accent)}
.list{max-height:470px}.wide{max-width:600px}.bar{width:40%;min-width:60px}.bar i{display:block;height:10px;border-radius:5px;background:var(--accent)}
figure{margin:0 0 16px}figcaption{color:var(--soft);font-size:13px;margin-bottom:8px;overflow-wrap:anywhere}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr));gap:12px}
.pair img{width:100%;height:auto;border-radius:6px}
.mistakes{display:grid;grid-template-columns:repeat(auto-fill,minmax(128px,1fr));gap:12px}
.mistakes figure{margin:0;padding:10px}.mistakes figcaption{margin:8px 0 0;line-height:1.4}
.mistakes img{width:100%;aspect-ratio:1;object-fit:contain;border-radius:6px;background:var(--paper)}.mistakes .small{image-rendering:pixelated}
.pair div{color:var(--soft);font-size:13px;overflow-wrap:anywhere}ul{overflow-wrap:anywhere}.first td{font-weight:650}figcaption b{color:var(--wrong)}figcaption i{color:var(--ink);font-style:normal}
pre{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:14px;overflow:auto;font-size:12.5px}
@media(max-width:560px){main{padding:20px 12px 48px}.card{padding:8px}.scrolled>svg{min-width:640px}th,td{padding:5px 6px}th{white-space:normal}.bar{min-width:44px}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:6px}}
@media(max-width:350px){.tile.long{grid-column:auto}}
)";

std::string address_of(const char* type, const std::vector<uint8_t>& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  text.resize(static_cast<size_t>(
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(), static_cast<int>(bytes.size()))));
  return std::string("data:") + type + ";base64," + text;
}

// A percentage stays in one line.
std::string with_fixed_spaces(std::string html) {
  for (size_t at = html.find(" %"); at != html.npos; at = html.find(" %", at + 1))
    if (at > 0 && html[at - 1] >= '0' && html[at - 1] <= '9') html.replace(at, 1, "\u00a0");
  return html;
}

// A long word may be broken behind these.
std::string with_breaks(const std::string& text) {
  std::string html;
  for (const char c : text) html += escaped(std::string(1, c)) + (c == '_' || c == '/' || c == '-' ? "<wbr>" : "");
  return html;
}

}  // namespace

std::string html_page(const std::string& title, const std::string& sentence, const std::string& body) {
  return fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{1}</style></head><body><main>\n"
      "<h1>{0}</h1><p>{2}</p>\n{3}</main></body></html>\n",
      escaped(title), style, escaped(sentence), with_fixed_spaces(body));
}

std::string tile(const std::string& value, const std::string& name) {
  constexpr size_t narrow = 9;  // letters of a value that one column holds
  return fmt::format("<div class=\"tile{}\"><b>{}</b><span>{}</span></div>", value.size() > narrow ? " long" : "",
                     with_breaks(value), escaped(name));
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& named) {
  std::string html;
  for (const auto& [name, text] : named)
    if (!text.empty()) html += "<dt>" + escaped(name) + "</dt><dd>" + escaped(text) + "</dd>";
  return html.empty() ? "" : "<dl>" + html + "</dl>\n";
}

std::string folded(const std::string& summary, const std::string& text) {
  return "<details><summary>" + escaped(summary) + "</summary><p>" + escaped(text) + "</p></details>";
}

std::string card(const std::string& content) { return "<div class=\"card\">" + content + "</div>\n"; }

std::string card_grid(const std::string& cards, const char* columns) {
  return cards.empty() ? "" : fmt::format("<div class=\"{}\">\n{}</div>\n", columns, cards);
}

std::string bar_cell(double share) {
  return fmt::format("<td class=\"bar\"><i style=\"width:{:.1f}%\"></i></td>", 100 * std::clamp(share, 0.0, 1.0));
}

std::string jpeg_address(const Raster& rgb) { return address_of("image/jpeg", jpeg_of(rgb)); }

std::string png_address(const Raster& rgb) { return address_of("image/png", png_of(rgb)); }

}  // namespace octet
