// The arithmetic of training. While it stays, the same seed, data and recipe end with the same weights.
#pragma once
#include <iterator>

namespace octet {

// The last commit of each earlier arithmetic, the oldest first. A commit that changes the weights of INT8 trainings
// adds the one before it.
inline constexpr const char* last_commits[] = {
    "80176b9",  // moments of codes and the first layer were sums of f32; a norm's backward pass summed longer chunks
};
inline constexpr const char* arithmetic_key = "arithmetic";  // of a checkpoint's metadata; absent: the first
inline constexpr int arithmetic = 1 + static_cast<int>(std::size(last_commits));

}  // namespace octet
