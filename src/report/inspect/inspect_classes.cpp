#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "src/data/loader.h"
#include "src/report/charts/svg.h"
#include "src/report/class_parts.h"
#include "src/report/inspect/sections.h"

namespace octet {
namespace {

// UsageError: the data cannot be read, or is not that of the answers.
std::string pictures_of(const std::vector<Answer>& wrong, const ClassAnswers& all, const ClassReport& report,
                        const Config& config) {
  Config plain = config;
  plain.data.bad_images = "skip";  // one that cannot be read now is left out
  const Datasets sets = open_datasets(plain, false, {all.classes, {}});
  const Dataset& data = *sets.test;
  const bool same = data.size() == all.images &&
                    std::ranges::all_of(wrong, [&](const Answer& a) { return data.label(a.image) == a.label; });
  REQUIRE_USAGE(same, "give the data of the training", "the images or their labels are others than in the training");
  return mistake_cards(all, wrong, report, data);
}

std::string mistakes(const ClassAnswers& all, const ClassReport& report, const Config* config) {
  const std::vector<Answer> wrong = confident_mistakes(all);
  if (wrong.empty()) return {};
  const std::string html = mistakes_heading;
  if (config == nullptr) return html + "<p>The run's configuration cannot be read, so there are no pictures.</p>\n";
  try {
    return html + pictures_of(wrong, all, report, *config);
  } catch (const Error& error) {
    return html + "<p>The test set of this run cannot be read, so there are no pictures: " + escaped(error.what()) +
           "</p>\n";
  }
}

}  // namespace

std::string class_sections(const ClassAnswers& all, const Config* config) {
  if (all.answers.empty()) return {};
  const ClassReport report = class_report(all);
  return fmt::format(
             "<h2>Classes</h2><p>What the network answered to the {} images of the test set after step {}. The least "
             "F1 comes first.</p>\n",
             all.answers.size(), all.step) +
         class_cards(report) + mistakes(all, report, config);
}

}  // namespace octet
