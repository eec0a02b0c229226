// Rows and lists of the pages of `octet check`.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/data/sources/examine.h"

namespace octet {

inline constexpr const char* split_names[] = {"train", "test"};

// A name and a number of each split.
std::string check_row(const std::string& name, int64_t train, int64_t test);
// What was found: its number, and the first few.
std::string check_list(const std::string& title, const std::vector<std::string>& found);
// Readable files of equal bytes, each with the first of its kind, in both splits and in one.
std::string duplicates(const std::array<std::vector<std::string>, 2>& paths,
                       const std::array<std::vector<ImageFacts>, 2>& facts);

}  // namespace octet
