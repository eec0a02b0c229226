#include <gtest/gtest.h>

#include "comm/hang.h"

namespace octet::test {
namespace {

constexpr double hang_limit = 10;

// A rank of which this is seen: its activity lasts `still` seconds, its line has not changed for `silent` seconds.
Sighting rank_seen(int rank, const Activity& activity, int64_t step, double still, double silent = 0) {
  Sighting seen;
  seen.last.rank = rank;
  seen.last.host = "h" + std::to_string(rank);
  seen.last.process = 100 + rank;
  seen.last.step = step;
  seen.last.activity = activity.name;
  seen.last.waits = activity.waits;
  seen.last.limits = activity.limits;
  seen.last.least = activity.least;
  seen.still = still;
  seen.silent = silent;
  return seen;
}
const auto waiting = [](int rank, double still) { return rank_seen(rank, activity::exchange, 21, still); };

TEST(Hang, ARankThatMovesDoesNotHang) {
  EXPECT_FALSE(find_hang(waiting(0, 9), {waiting(1, 99)}, 2, hang_limit));
  EXPECT_FALSE(find_hang(rank_seen(0, activity::forward, 21, 9), {}, 1, hang_limit));
}

TEST(Hang, ARankThatWorksTooLongNamesItself) {
  const auto hang = find_hang(rank_seen(0, activity::forward, 21, 11), {waiting(1, 11)}, 2, hang_limit);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 0);
  EXPECT_EQ(hang->reason, "rank 0 on h0 (pid 100) has been in 'forward' of step 21 for 11 s");
}

TEST(Hang, AProcessWithoutSignOfLifeIsNamedByThoseThatWait) {
  const auto hang =
      find_hang(waiting(0, 11), {waiting(1, 11), rank_seen(2, activity::exchange, 21, 12, 12)}, 3, hang_limit);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 2);
  EXPECT_EQ(
      hang->reason,
      "rank 2 on h2 (pid 102) has given no sign of life for 12 s; it was last seen in 'gradient exchange' of step "
      "21");
}

TEST(Hang, ARankThatReadsTooLongIsNamedByThoseThatWait) {
  const auto hang = find_hang(waiting(0, 11), {rank_seen(1, activity::reading, 21, 12), waiting(2, 11)}, 3, hang_limit);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 1);
  EXPECT_NE(hang->reason.find("'reading data' of step 21 for 12 s"), std::string::npos) << hang->reason;
}

// A checkpoint on a slow disk: rank 0 may take ten times as long as a step, and the others know.
TEST(Hang, AllWaitForRankZeroThatSaves) {
  const auto wait_for = [](double saving, double silent) {
    return find_hang(rank_seen(1, activity::awaiting_files, 21, saving),
                     {rank_seen(0, activity::saving, 21, saving, silent)}, 2, hang_limit);
  };
  EXPECT_FALSE(wait_for(15, 0));
  EXPECT_FALSE(wait_for(99, 0));
  EXPECT_FALSE(wait_for(15, 15));  // a slow disk may hold up the heartbeats too, for a minute
  for (const auto& hang : {wait_for(101, 0), wait_for(61, 61)}) {
    ASSERT_TRUE(hang);
    EXPECT_EQ(hang->rank, 0);
  }
}

TEST(Hang, AWorkingRankIsWaitedForAsLongAsItMoves) {
  EXPECT_FALSE(find_hang(rank_seen(1, activity::awaiting_files, 21, 500),
                         {rank_seen(0, activity::awaiting_space, 21, 5)}, 2, hang_limit));
}

TEST(Hang, OfRanksThatAllWaitTheOneBehindIsNamed) {
  const auto hang = find_hang(waiting(0, 11), {rank_seen(1, activity::exchange, 20, 12)}, 2, hang_limit);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 1);
  EXPECT_NE(hang->reason.find("rank 1 on h1 (pid 101) is behind"), std::string::npos) << hang->reason;
  EXPECT_EQ(find_hang(rank_seen(1, activity::exchange, 20, 12), {waiting(0, 11)}, 2, hang_limit)->rank, 1);
}

TEST(Hang, NobodyIsNamedWhereItCannotBeTold) {
  const auto together = find_hang(waiting(0, 11), {waiting(1, 11)}, 2, hang_limit);
  ASSERT_TRUE(together);
  EXPECT_FALSE(together->rank);
  EXPECT_NE(together->reason.find("ranks wait for each other in step 21 for 11 s"), std::string::npos);
  const auto alone = find_hang(waiting(0, 11), {}, 3, hang_limit);
  ASSERT_TRUE(alone);
  EXPECT_FALSE(alone->rank);
  EXPECT_NE(alone->reason.find("nothing is seen of rank(s) 1 2"), std::string::npos) << alone->reason;
}

TEST(Hang, ActivitiesOfTheStartHaveTimeEvenWithAShortLimit) {
  EXPECT_FALSE(find_hang(rank_seen(0, activity::joining, 0, 19), {}, 2, 1));
  EXPECT_TRUE(find_hang(rank_seen(0, activity::joining, 0, 21), {}, 2, 1));
}

TEST(Hang, OneRankSpeaks) {
  const Sighting dead = rank_seen(0, activity::forward, 21, 12, 12);
  const auto hang = find_hang(waiting(1, 11), {dead, waiting(2, 11)}, 3, hang_limit);
  ASSERT_TRUE(hang);
  EXPECT_TRUE(speaks_first(waiting(1, 11), {dead, waiting(2, 11)}, *hang));
  EXPECT_FALSE(speaks_first(waiting(2, 11), {dead, waiting(1, 11)}, *hang));
}

}  // namespace
}  // namespace octet::test
