// What a rank can be doing, as its heartbeat says and its watchdog times.
#pragma once

namespace octet {

struct Activity {
  const char* name;    // a string literal
  bool waits = false;  // for other ranks, in a collective
  double limits = 1;   // it may take this many times comm.timeout_seconds
  double least = 0;    // seconds that it may always take
};

namespace activity {

// Of the start. Data are opened and networks are built in minutes; ranks are launched one after the other.
inline constexpr Activity start{"start", false, 10, 60};
inline constexpr Activity joining{"joining the job", true, 1, 20};
inline constexpr Activity opening_data{"opening data", false, 10, 60};
inline constexpr Activity building{"building the network", false, 10, 60};
inline constexpr Activity comparing{"comparing ranks", true, 10, 60};
// Of a training step; on a GPU the time of its kernels counts as exchange, where the rank waits for them.
inline constexpr Activity reading{"reading data"};
inline constexpr Activity forward{"forward"};
inline constexpr Activity backward{"backward"};
inline constexpr Activity exchange{"gradient exchange", true};
inline constexpr Activity update{"update"};
// Of an evaluation.
inline constexpr Activity evaluation{"evaluation"};
inline constexpr Activity summing{"summing the evaluation", true};
inline constexpr Activity judging{"judging detections", false, 10};
// Of files, which rank 0 writes while the others wait. A disk can take minutes for what it usually takes in seconds.
inline constexpr Activity saving{"saving", false, 10, 60};
inline constexpr Activity awaiting_files{"waiting until rank 0 has saved", true, 10, 60};
inline constexpr Activity awaiting_space{"waiting for space on the disk", false, 10, 60};
inline constexpr Activity leaving{"leaving the job", true, 10, 60};
// Instead of leaving.
inline constexpr Activity stopped{"stopped", true, 10, 60};  // by a signal, after a checkpoint
inline constexpr Activity diverged{"diverged"};

}  // namespace activity
}  // namespace octet
