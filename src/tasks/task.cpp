#include "src/tasks/task.h"

#include <fmt/format.h>

namespace octet {

extern const Task classification;

const Task& task_of(const Config&) { return classification; }

std::string show(const Task& task, const Scalars& figures, int digits, bool all, const char* separator) {
  std::string text;
  for (const MetricStyle& style : task.metrics) {
    for (const Scalar& figure : figures) {
      if (figure.name != style.name || !(style.headline || all)) continue;
      text += text.empty() ? "" : separator;
      text += style.percent ? fmt::format("{} {:.{}f} %", style.label, 100 * figure.value, digits)
                            : fmt::format("{} {:.{}f}", style.label, figure.value, digits + 2);
    }
  }
  return text;
}

}  // namespace octet
