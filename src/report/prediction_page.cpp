#include "src/report/prediction_page.h"

#include <fmt/format.h>

#include "src/report/picture_files.h"
#include "src/report/svg.h"

namespace octet {
namespace {

constexpr int side_of_picture = 320;  // pixels
constexpr const char* style =
    ":root{color-scheme:light dark}"
    "body{font:15px/1.4 system-ui,sans-serif;margin:0 auto;padding:16px;max-width:1280px}"
    ".all{display:grid;grid-template-columns:repeat(auto-fill,minmax(240px,1fr));gap:16px}"
    "figure{margin:0;border:1px solid #8885;border-radius:8px;overflow:hidden}"
    "img{display:block;width:100%;height:240px;object-fit:contain;background:#8882}"
    "figcaption{padding:8px 12px}"
    ".file{overflow-wrap:anywhere;opacity:.7;font-size:13px}"
    ".answer{display:grid;grid-template-columns:1fr auto;gap:0 8px}"
    ".bar{grid-column:1/3;height:4px;border-radius:2px;background:#8883;margin-bottom:4px}"
    ".bar i{display:block;height:4px;border-radius:2px;background:#2a78d6}";

std::string answer(const std::string& name, double share) {
  return fmt::format(
      "<div class=answer><span>{}</span><span>{:.1f} %</span><div class=bar><i style=\"width:{:.1f}%\">"
      "</i></div></div>",
      escaped(name), 100 * share, 100 * share);
}

std::string figure(const PredictionReport& report, const Prediction& prediction) {
  const AnnotatedImage& image = report.image(prediction);
  std::string text = "<figure>";
  if (const std::string picture = picture_of_file(report.network, image.path, prediction, side_of_picture);
      !picture.empty())
    text += fmt::format("<img src=\"{}\" alt=\"{}\">", picture, escaped(image.name));
  text += fmt::format("<figcaption><div class=file>{}</div>", escaped(image.path));
  for (const RankedClass& of : report.answers(prediction)) text += answer(report.class_name(of.label), of.probability);
  for (const Detection& found : prediction.objects) text += answer(report.class_name(size_t(found.label)), found.score);
  if (report.network.detects() && prediction.objects.empty()) text += "nothing found";
  return text + "</figcaption></figure>\n";
}

}  // namespace

std::string prediction_page(const PredictionReport& report) {
  const std::string title = fmt::format("{}: {} images", report.network.config().model.name, report.predictions.size());
  std::string html = fmt::format(
      "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>{0}</title><style>{1}</style></head><body><h1>{0}</h1><div class=all>\n",
      escaped(title), style);
  for (const Prediction& prediction : report.predictions) html += figure(report, prediction);
  return html + "</div></body></html>\n";
}

}  // namespace octet
