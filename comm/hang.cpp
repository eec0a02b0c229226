#include "comm/hang.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/base/error.h"

namespace octet {
namespace {

double limit_of(const Heartbeat& beat, double limit) { return std::max(limit * beat.limits, beat.least); }

std::string name_of(const Heartbeat& beat) {
  return say("rank ", beat.rank, " on ", beat.host, " (pid ", beat.process, ")");
}
std::string place_of(const Heartbeat& beat) { return say("'", beat.activity, "' of step ", beat.step); }
std::string text_of(double seconds) { return say(std::llround(seconds), " s"); }

// Of the ranks of which nothing is seen.
std::string unseen(const Sighting& own, const std::vector<Sighting>& others, int ranks) {
  std::vector<bool> seen(static_cast<size_t>(ranks));
  const auto see = [&](const Sighting& of) {
    if (of.last.rank < ranks) seen[static_cast<size_t>(of.last.rank)] = true;
  };
  see(own);
  for (const Sighting& other : others) see(other);
  std::vector<int> hidden;
  for (int rank = 0; rank < ranks; ++rank)
    if (!seen[static_cast<size_t>(rank)]) hidden.push_back(rank);
  return few_of(hidden);
}

// The longest of those for which the condition holds.
template <class Condition>
const Sighting* longest(const std::vector<Sighting>& others, double Sighting::*since, const Condition& condition) {
  const Sighting* found = nullptr;
  for (const Sighting& other : others)
    if (condition(other) && (found == nullptr || other.*since > found->*since)) found = &other;
  return found;
}

// All ranks that are seen wait: the one that is behind holds them up, if there is one.
Hang all_wait(const Sighting& own, const std::vector<Sighting>& others, int ranks) {
  const Sighting* behind = &own;
  bool together = true;
  for (const Sighting& other : others) {
    together = together && other.last.step == own.last.step;
    if (other.last.step < behind->last.step) behind = &other;
  }
  const std::string hidden = unseen(own, others, ranks);
  const std::string more = hidden.empty() ? "" : say("; nothing is seen of rank(s) ", hidden);
  if (!together)
    return {behind->last.rank,
            say(name_of(behind->last), " is behind: it has been in ", place_of(behind->last), " for ",
                text_of(behind->still), ", others are in step ", std::max(own.last.step, behind->last.step + 1), more),
            behind->still};
  if (ranks == 1 || others.empty())
    return {
        {}, say(name_of(own.last), " has been in ", place_of(own.last), " for ", text_of(own.still), more), own.still};
  std::map<std::string, std::string> places;
  std::vector<Sighting> all = others;
  all.push_back(own);
  std::ranges::sort(all, {}, [](const Sighting& of) { return of.last.rank; });
  for (const Sighting& of : all) places[of.last.activity] += say(" ", of.last.rank);
  std::string text;
  for (const auto& [place, who] : places) text += say(text.empty() ? "" : ", ", "rank(s)", who, " in '", place, "'");
  return {{},
          say("ranks wait for each other in step ", own.last.step, " for ", text_of(own.still), ": ", text, more),
          own.still};
}

}  // namespace

std::string few_of(const std::vector<int>& ranks) {
  constexpr size_t shown = 32;
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), shown); ++i) text += say(i > 0 ? " " : "", ranks[i]);
  return ranks.size() > shown ? say(text, " and ", ranks.size() - shown, " more") : text;
}

std::optional<Hang> find_hang(const Sighting& own, const std::vector<Sighting>& others, int ranks, double limit) {
  if (own.still < std::max(limit, own.last.least)) return {};
  const Sighting* const dead = longest(others, &Sighting::silent, [&](const Sighting& o) { return o.silent >= limit; });
  if (dead != nullptr)
    return Hang{dead->last.rank,
                say(name_of(dead->last), " has given no sign of life for ", text_of(dead->silent),
                    "; it was last seen in ", place_of(dead->last)),
                dead->silent};
  std::vector<Sighting> all = others;
  all.push_back(own);
  const auto works = [](const Sighting& of) { return !of.last.waits; };
  const auto too_long = [&](const Sighting& of) { return works(of) && of.still >= limit_of(of.last, limit); };
  if (const Sighting* const slow = longest(all, &Sighting::still, too_long))
    return Hang{slow->last.rank,
                say(name_of(slow->last), " has been in ", place_of(slow->last), " for ", text_of(slow->still)),
                slow->still};
  const auto moves = [&](const Sighting& other) { return other.still < limit; };
  if (std::ranges::any_of(all, works) || std::ranges::any_of(others, moves)) return {};
  if (own.still < limit_of(own.last, limit)) return {};
  return all_wait(own, others, ranks);
}

bool speaks_first(const Sighting& own, const std::vector<Sighting>& others, const Hang& hang) {
  return std::ranges::none_of(others, [&](const Sighting& other) {
    return other.last.rank < own.last.rank && hang.rank != other.last.rank && other.silent < hang.seconds / 2;
  });
}

}  // namespace octet
