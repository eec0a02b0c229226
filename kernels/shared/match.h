// Which object a candidate (an anchor or a proposal) is trained to find, and which candidates train at all.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/shared/boxes.h"
#include "kernels/shared/random.h"

namespace octet {

// A match is the index of an object, or one of these.
inline constexpr int32_t background = -1;  // trains as "no object"
inline constexpr int32_t ignored = -2;     // trains nothing

struct MatchProblem {
  float positive = 0.7f;  // a candidate that overlaps an object by so much finds it
  float negative = 0.3f;  // one whose overlap with all objects is smaller is background; those between are ignored
  // Each object is also found by the candidates that overlap it most, whatever the threshold. They find the object that
  // they themselves overlap most. An object that no candidate overlaps has none.
  bool every_object = true;
  // Candidates whose center lies outside of [0, width) x [0, height) are ignored: there is padding, not an image.
  float width = std::numeric_limits<float>::infinity(), height = std::numeric_limits<float>::infinity();
};

// Writes the match of each candidate. Of objects that a candidate overlaps equally it finds the first. Memory is
// proportional to the number of candidates, not to its product with that of objects.
inline void match(const MatchProblem& problem, std::span<const Box> candidates, std::span<const Box> objects,
                  std::span<int32_t> matches) {
  const size_t count = candidates.size();
  std::vector<float> best(count, 0.0f);              // overlap of each candidate
  std::vector<float> reached(objects.size(), 0.0f);  // of each object
  std::vector<int32_t> found(count, 0);
  const auto takes_part = [&](const Box& box) {
    const float x = box.center_x(), y = box.center_y();
    return x >= 0 && x < problem.width && y >= 0 && y < problem.height;
  };
  for (size_t i = 0; i < count; ++i) matches[i] = takes_part(candidates[i]) ? background : ignored;
  for (size_t object = 0; object < objects.size(); ++object) {
    for (size_t i = 0; i < count; ++i) {
      if (matches[i] == ignored) continue;
      const float overlap = overlap_of(candidates[i], objects[object]);
      reached[object] = std::max(reached[object], overlap);
      if (overlap > best[i]) best[i] = overlap, found[i] = static_cast<int32_t>(object);
    }
  }
  std::vector<uint8_t> finds(count, 0);
  for (size_t object = 0; problem.every_object && object < objects.size(); ++object)
    for (size_t i = 0; reached[object] > 0 && i < count; ++i)
      if (best[i] >= reached[object] && matches[i] != ignored)  // else its overlap with this object is smaller
        finds[i] |= overlap_of(candidates[i], objects[object]) == reached[object];
  for (size_t i = 0; i < count; ++i) {
    if (matches[i] == ignored) continue;
    const bool positive = !objects.empty() && (best[i] >= problem.positive || finds[i] != 0);
    matches[i] = positive ? found[i] : best[i] < problem.negative ? background : ignored;
  }
}

struct SampleProblem {
  int64_t samples = 256;        // of an image, at most
  double positive_share = 0.5;  // of them, at most; background fills the rest
};
struct Sampled {
  int64_t positive = 0, negative = 0;
  int64_t all() const { return positive + negative; }
};

// Keeps a random choice of the matches, and ignores the others. Draws are a function of the key and of a candidate's
// number, so they do not depend on ranks and threads. RngKey::first: the image in the global batch.
inline Sampled sample_matches(const SampleProblem& problem, const RngKey& key, std::span<int32_t> matches) {
  std::vector<uint64_t> draws;
  const auto keep = [&](bool of_positive, int64_t most) {
    draws.clear();
    for (size_t i = 0; i < matches.size(); ++i) {
      if (matches[i] == ignored || (matches[i] >= 0) != of_positive) continue;
      const uint64_t counter = key.first << 32 | i;
      draws.push_back(static_cast<uint64_t>(philox(counter, key.step, key.layer_id, key.seed).word[0]) << 32 | i);
    }
    const int64_t kept = std::min(most, static_cast<int64_t>(draws.size()));
    const auto first_lost = draws.begin() + kept;
    if (first_lost != draws.end()) std::nth_element(draws.begin(), first_lost, draws.end());
    for (auto lost = first_lost; lost != draws.end(); ++lost) matches[*lost & 0xFFFFFFFFu] = ignored;
    return kept;
  };
  Sampled sampled;
  sampled.positive = keep(true, static_cast<int64_t>(static_cast<double>(problem.samples) * problem.positive_share));
  sampled.negative = keep(false, problem.samples - sampled.positive);
  return sampled;
}

}  // namespace octet
