#include "src/deploy/advice.h"

#include <fmt/format.h>

#include <vector>

#include "kernels/base/text.h"

namespace octet {

std::string advice(const Config::Policy& policy, const std::string& figure, double integers, double training) {
  constexpr double bearable = 0.002;
  if (training - integers <= bearable) return {};
  std::vector<std::string> keys;
  if (!policy.quantize_first) keys.emplace_back("policy.quantize_first: true");
  if (!policy.quantize_last) keys.emplace_back("policy.quantize_last: true");
  std::string text = fmt::format("the integers lose {:.2f} points of {}", 100 * (training - integers), figure);
  if (!keys.empty()) text += "; train with " + joined(keys, " and ") + ", so that training rounds every layer";
  return text;
}

}  // namespace octet
