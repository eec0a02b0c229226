#include "src/data/annotations/python_json.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace octet {
namespace {

constexpr std::string_view python_words[] = {"NaN", "Infinity", "-Infinity"};
constexpr size_t longest_word = python_words[2].size();

}  // namespace

// Keeps what is left of the block, and so the start of a word.
void PythonJson::fill() {
  std::copy(block_.begin() + int64_t(next_), block_.begin() + int64_t(filled_), block_.begin());
  filled_ -= std::exchange(next_, 0);
  source_.read(block_.data() + filled_, static_cast<std::streamsize>(block_.size() - filled_));
  filled_ += static_cast<size_t>(source_.gcount());
}

size_t PythonJson::word_at(size_t place) const {
  const std::string_view text(block_.data() + place, filled_ - place);
  const auto* const word = std::ranges::find_if(python_words, [&](std::string_view w) { return text.starts_with(w); });
  return word == std::end(python_words) ? 0 : word->size();
}

size_t PythonJson::plain() {
  for (size_t i = next_; i < filled_; ++i) {
    const char c = block_[i];
    if (in_text_) {
      in_text_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_text_ = true;
    } else if ((c == 'N' || c == 'I' || c == '-') && (word_at(i) > 0 || (filled_ - i < longest_word && i > next_))) {
      return i - next_;
    }
  }
  return filled_ - next_;
}

PythonJson::int_type PythonJson::underflow() {
  if (filled_ - next_ < longest_word) fill();
  if (next_ == filled_) return traits_type::eof();
  char* from = block_.data() + next_;
  size_t count = plain();
  next_ += count;
  if (count == 0) {
    const size_t word = word_at(next_);
    quoted_ = '"' + std::string(from, word) + '"';
    next_ += word;
    added_ += 2;
    from = quoted_.data();
    count = quoted_.size();
  }
  setg(from, from, from + count);
  return traits_type::to_int_type(*from);
}

}  // namespace octet
