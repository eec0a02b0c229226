// The backend and the share of the batch of one rank, according to the configuration.
#pragma once
#include <memory>

#include "comm/transport.h"
#include "kernels/backend.h"
#include "src/config/config.h"
#include "src/quant/policy.h"
#include "src/train/shares.h"

namespace octet {

// The backend that the configuration selects. On the host it has this rank's share of threads, and of memory what
// `images` leave: the bytes of those that are read ahead.
std::unique_ptr<Backend> make_backend(const Config&, const Policy&, const Transport&, const JobShares&, int64_t images);
// Bytes of the images that a rank reads ahead, with so many samples of each batch: of the training set and, from the
// first evaluation on, of the test set. UsageError: as input_shapes().
int64_t bytes_read_ahead(const Config&, int64_t samples);
// Samples that a rank computes at once: its share of data.batch, or one of the train.accumulate parts of that.
// UsageError: ranks, parts and norm groups do not divide the batch.
int64_t batch_of_plan(const Config&, int64_t ranks);
// The largest number of ranks, at most `most`, for which batch_of_plan() succeeds; 1 if there is none.
int64_t fitting_ranks(const Config&, int64_t most);

}  // namespace octet
