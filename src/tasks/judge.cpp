#include "src/tasks/judge.h"

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"

namespace octet {

void Judge::take(const Batch& batch, Answers answers) {
  add(total_, answers.metrics);
  keep(batch, answers);
}

void Judge::finish(Transport& transport, Heart& heart) {
  heart.enter(activity::summing);
  std::vector<double> numbers = as_numbers(total_);
  transport.all_reduce_sum(std::span(numbers));
  total_ = with_numbers(std::move(total_), numbers);
  REQUIRE_USAGE(!total_.empty() && total_.front().count > 0,
                "check that the images are still there; a warning for each says what is wrong with it",
                "no image of the test set could be read");
  figures_ = means_of(total_);
  judge(transport, heart);
}

std::string Judge::json() const {
  nlohmann::ordered_json object;
  for (const Scalar& figure : figures_) object[figure.name] = figure.value;
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace octet
