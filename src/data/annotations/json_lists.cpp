#include "src/data/annotations/json_lists.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/config/json_error.h"
#include "src/config/yaml.h"
#include "src/data/annotations/number_text.h"
#include "src/data/annotations/python_json.h"

namespace octet {
namespace {

using nlohmann::json;
using Kind = JsonField::Kind;

constexpr int most_depth = 64;
constexpr const char* damaged = "write the file again: it is damaged, or another kind of file";

const char* form_of(Kind kind) {
  constexpr const char* forms[] = {"an integer",         "a number", "a text",   "an integer or a text",
                                   "a text or a number", "0 or 1",   "4 numbers"};
  return forms[static_cast<size_t>(kind)];
}

std::string fix_of(const JsonField& field) {
  if (field.kind == Kind::box) return "give x, y, width and height in pixels, or remove the annotation";
  return say("write `", field.name, "` as ", form_of(field.kind));
}

// Follows the depth of the document. With named lists an object is around them, and everything lies one level deeper.
class ListReader : public nlohmann::json_sax<json> {
 public:
  ListReader(const std::string& file, const std::vector<JsonList>& lists, const PythonJson& source)
      : file_(file), lists_(lists), source_(source), named_(!lists[0].name.empty()), seen_(lists.size()) {
    if (!named_) list_ = lists.data();
  }

  bool start_object(size_t) override { return open(false); }
  bool start_array(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& text) override {
    if (depth_ == top() && named_) {
      const auto found = std::ranges::find(lists_, text, &JsonList::name);
      list_ = found == lists_.end() ? nullptr : &*found;
      index_ = 0;
      if (!list_) return true;
      std::vector<bool>::reference seen = seen_[found - lists_.begin()];
      if (seen) refuse("`", text, "` is there twice");
      seen = true;
    } else if (list_ && depth_ == record()) {
      const auto found = std::ranges::find(list_->fields, text, &JsonField::name);
      field_ = found == list_->fields.end() ? -1 : static_cast<int>(found - list_->fields.begin());
    }
    return true;
  }

  bool null() override { return depth_ == record() && list_ ? true : other("null"); }
  bool boolean(bool value) override {
    if (!wanted()) return other(value ? "true" : "false");
    if (field().kind != Kind::flag) mismatch(value ? "true" : "false");
    return store().integer = value, true;
  }
  bool number_integer(int64_t value) override { return whole(value); }
  bool number_unsigned(uint64_t value) override {
    if (value <= uint64_t{std::numeric_limits<int64_t>::max()}) return whole(static_cast<int64_t>(value));
    return real(static_cast<double>(value), std::to_string(value));
  }
  bool number_float(double value, const std::string& text) override { return real(value, text); }
  bool string(std::string& text) override {
    if (in_box() && list_) return add(number_of(text));
    if (!wanted()) return other("a text");
    switch (field().kind) {
      case Kind::integer:
        if (const auto id = id_in(text)) return whole(*id) && (values_[field_].is_text = true);
        mismatch(say("the text `", shown(text), "`"));
      case Kind::number:
        return store().number = number_of(text), true;
      case Kind::text:
      case Kind::name:
      case Kind::label:
        store().text = std::move(text);
        return values_[field_].is_text = true;
      default:
        mismatch("a text");
    }
  }
  bool binary(json::binary_t&) override { return true; }  // JSON has none
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    refuse("byte ", byte - source_.added(), ": no JSON: ", reason_of(error).substr(0, 200));
  }

  void finish() const {
    for (size_t i = 0; named_ && i < lists_.size(); ++i)
      if (!seen_[i]) refuse("no list `", lists_[i].name, "`");
  }

 private:
  int top() const { return named_ ? 1 : 0; }  // depth inside the object around the lists
  int record() const { return top() + 2; }    // inside an object of a list
  bool in_box() const { return depth_ == record() + 1 && field_ >= 0; }
  bool wanted() const { return list_ && depth_ == record() && field_ >= 0; }
  const JsonField& field() const { return list_->fields[field_]; }
  JsonValue& store() {
    values_[field_].present = true;
    return values_[field_];
  }

  // "annotations[17].bbox"
  std::string place() const {
    std::string path = list_ ? list_->name : "";
    if (list_ && depth_ > top()) path += say("[", index_, "]");
    if (list_ && depth_ >= record() && field_ >= 0) path += "." + field().name;
    return path.empty() ? "the file" : path;
  }
  // Messages are written for mistakes alone: most files have many million values and no mistake.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw UsageError(__FILE__, __LINE__, say(file_, ": ", parts...), damaged);
  }
  template <class Got>
  [[noreturn]] void mismatch(const Got& got) const {
    throw UsageError(__FILE__, __LINE__, say(file_, ": ", place(), ": expected ", form_of(field().kind), ", not ", got),
                     fix_of(field()));
  }
  double number_of(const std::string& text) const {
    const std::optional<double> number = number_in(text);
    if (!number) mismatch(say("the text `", shown(text), "`"));
    return *number;
  }
  // A value outside the fields of a list's object: skipped, unless it stands where a list or its object has to be.
  bool other(const char* got) const {
    if (in_box()) mismatch(say("a list with ", got));
    if (depth_ == 0) refuse("expected ", named_ ? "an object" : "a list", ", not ", got);
    if (list_ && named_ && depth_ == top()) refuse(place(), ": expected a list, not ", got);
    if (list_ && depth_ == top() + 1) refuse(place(), ": expected an object, not ", got);
    return true;
  }

  bool open(bool array) {
    const char* const got = array ? "a list" : "an object";
    if (depth_ == 0 && array == named_) refuse("expected ", named_ ? "an object" : "a list", ", not ", got);
    if (list_ && depth_ == top() && !array) refuse(place(), ": expected a list, not ", got);
    if (list_ && depth_ == top() + 1) {
      if (array) refuse(place(), ": expected an object, not ", got);
      values_.assign(list_->fields.size(), {});
      field_ = -1;
    }
    if (wanted()) {
      if (!array || field().kind != Kind::box) mismatch(got);
      numbers_ = 0;
    } else if (list_ && in_box()) {
      mismatch("a list in a list");
    }
    if (++depth_ > most_depth) refuse("values are nested more than ", most_depth, " levels deep");
    return true;
  }

  bool close() {
    if (list_ && in_box()) {
      if (numbers_ != 4) mismatch(numbers_);
      values_[field_].present = true;
    }
    if (list_ && depth_ == record()) {
      field_ = -1;
      for (size_t i = 0; i < values_.size(); ++i)
        if (!values_[i].present && list_->fields[i].required) refuse(place(), ": no `", list_->fields[i].name, "`");
      list_->take(index_++, values_);
    }
    --depth_;
    return true;
  }

  bool whole(int64_t value) {
    if (!wanted()) return in_box() && list_ ? add(static_cast<double>(value)) : other("a number");
    const Kind kind = field().kind;
    if (kind == Kind::text || kind == Kind::box) mismatch(value);
    JsonValue& to = store();
    if (kind == Kind::label) to.text = std::to_string(value);
    to.integer = kind == Kind::flag ? int64_t{value != 0} : value;
    to.number = static_cast<double>(value);
    return true;
  }
  bool real(double value, const std::string& text) {
    if (!wanted()) return in_box() && list_ ? add(value) : other("a number");
    if (field().kind == Kind::number) return store().number = value, true;
    if (field().kind == Kind::label) return store().text = text, true;
    // pandas and numpy write whole numbers as 160.0. Beyond 2^53 a double may stand for several of them.
    if (std::trunc(value) != value || std::abs(value) > 0x1p53) mismatch(value);
    return whole(static_cast<int64_t>(value));
  }
  bool add(double value) {
    if (numbers_ < 4) values_[field_].box[numbers_] = value;
    return ++numbers_, true;
  }

  const std::string& file_;
  const std::vector<JsonList>& lists_;
  const PythonJson& source_;
  const bool named_;
  std::vector<bool> seen_;
  const JsonList* list_ = nullptr;  // the list in which the reader is; null: in what is skipped
  std::vector<JsonValue> values_;   // of the present object
  int64_t index_ = 0;               // of that object in its list
  int field_ = -1;                  // the present field; -1: one to skip
  int depth_ = 0;
  int64_t numbers_ = 0;  // of the present box, so far
};

}  // namespace

void read_json_lists(std::istream& stream, const std::string& file, const std::vector<JsonList>& lists) {
  PythonJson source(stream);
  ListReader reader(file, lists, source);
  std::istream json_stream(&source);
  json::sax_parse(json_stream, &reader);
  reader.finish();
}

}  // namespace octet
