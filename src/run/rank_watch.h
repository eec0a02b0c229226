// The heartbeat and the watchdog of a rank, from before the start of the MPI library to after its end.
#pragma once
#include <string>

#include "comm/heart.h"
#include "comm/transport.h"
#include "comm/watchdog.h"

namespace octet {

class RankWatch {
 public:
  // Before the ranks have joined the job: the launcher's environment says which rank this is. Ranks of one host see
  // each other's heartbeats. A hang ends this process, and the launcher then ends the others. timeout: seconds, see
  // Watchdog.
  explicit RankWatch(double timeout);

  // While this lives, a hang ends the whole job by Transport::abort.
  class Joined {
   public:
    Joined(RankWatch&, Transport&, double timeout);
    ~Joined();
    Joined(const Joined&) = delete;
    Joined& operator=(const Joined&) = delete;

   private:
    RankWatch& watch_;
    const double timeout_;
  };

  Heart& heart() { return heart_; }
  // Collective. From now on ranks write their heartbeats to the file `heartbeats` in rank 0's directory, which is made,
  // and read them there. A rank that cannot see this file goes on as before, with a warning. job: its steps and images.
  void share(const std::string& directory, JobNote job, Transport&);
  // Rank 0 makes that file again, after it was deleted. The ranks go on writing to it.
  void make_file_again();

 private:
  Heart heart_;
  Watchdog watchdog_;
  double interval_;
  std::string shared_;  // rank 0's: the file, and what it says about the job
  JobNote job_;
};

}  // namespace octet
