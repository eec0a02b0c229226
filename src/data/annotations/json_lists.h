// Lists of objects in JSON files, read in one pass. What a reader does not ask for is skipped and takes no memory, so
// neither the size of a file nor its outlines of objects matter.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <vector>

namespace octet {

struct JsonField {
  // Numbers may also be written as texts, "1.5", and integers as 160.0 or "160". name: integer or text; label: text, or
  // a number that is taken as a text; flag: an integer, where all but 0 are true, or a boolean; box: four numbers.
  enum class Kind : uint8_t { integer, number, text, name, label, flag, box };
  std::string name;
  Kind kind = Kind::integer;
  bool required = true;
};

struct JsonValue {
  bool present = false, is_text = false;  // is_text: the file writes a text
  int64_t integer = 0;                    // flag: 0 or 1
  double number = 0;
  std::string text;
  std::array<double, 4> box{};
};

struct JsonList {
  std::string name;  // the member of the file's object that holds the list; empty: the file is the list
  std::vector<JsonField> fields;
  // Called for each object of the list. values: of `fields`, in their order; the function may take their text.
  std::function<void(int64_t index, std::vector<JsonValue>& values)> take;
};

// Reads every list; they may be in any order in the file. UsageError: the file is no JSON (with the byte), lacks a list
// or a required field, or a value has another form (with the path of its keys: "annotations[17].bbox"). A number may be
// NaN or infinite, as Python writes it.
void read_json_lists(std::istream&, const std::string& file, const std::vector<JsonList>&);

}  // namespace octet
