// What a recipe leaves to the machine: data.batch: auto and train.minutes. It is decided once, before a training
// begins, and the run's config.yaml holds what was decided.
#pragma once
#include <optional>
#include <string>

#include "comm/transport.h"
#include "src/config/config.h"
#include "src/run/rank_watch.h"
#include "src/train/memory_need.h"

namespace octet {

// Collective. Sets data.batch, if it is auto, to the largest power of two, times what the ranks and their parts need,
// that fits into memory on every rank and leaves 20 steps in an epoch. UsageError: not even the smallest fits.
Config with_batch(const Config&, Transport&);

// Collective. Takes a few steps and sets train.epochs so that training and evaluations take train.minutes, then
// train.minutes to 0. UsageError: that is less than an epoch, or no more than the warm-up.
Config with_epochs(const Config&, Transport&, Heart*);

// Collective. With train.memory_mb: chooses `storage`, train.accumulate and, of networks that begin from weights, how
// many of the first stages never train (train.freeze, model.freeze_stages), so that a rank stays below the limit. Takes
// the first that fits of: fewer stages frozen, fewer parts, the recipe's own storage. UsageError: nothing fits; the
// message has the smallest limit that works. host: rank 0's; none: it is measured now.
Config with_memory(const Config&, Transport&, std::optional<HostMemory> host = {});
// Collective. For a run that goes on: what was chosen when it began. begun: rank 0's configuration of the run.
// UsageError: train.memory_mb is less than before, and too little for it.
Config with_memory_as_begun(const Config&, const Config& begun, Transport&);
// Memory of a device is not limited. UsageError: the backend is one.
void require_memory_of_cpu(const Config&);

// Collective. As a training of this run directory begins or, with `resume`, as it began.
Config settled(const Config&, Transport&, const std::string& run_directory, bool resume, Heart*);

// Collective. Seconds of an epoch with its share of the evaluations, from a few steps. An evaluated image takes a third
// of a trained one's time.
double seconds_of_epoch(const Config&, Transport&, Heart* = nullptr);

// "5 s", "12 min", "3.4 h"
std::string text_of_time(double seconds);

}  // namespace octet
