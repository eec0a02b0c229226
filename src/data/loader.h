// Where batches come from. Order and augmentation are functions of (seed, epoch, index), so any step of any epoch can
// be produced directly: resuming costs nothing and ranks need not agree on anything.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/sample.h"

namespace octet {

struct ImageShape {
  int64_t height = 32, width = 32, channels = 3;
};

// One decoded sample source; thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual int64_t classes() const = 0;
  virtual ImageShape shape() const = 0;
  virtual std::string describe() const = 0;  // one line: what was found where
  virtual int32_t label(int64_t index) const = 0;
  // Of the samples and their order, wherever they are read: pixels (of packs a sample) and labels, or names of files.
  virtual uint64_t fingerprint() const = 0;
  // Writes sample `index` as normalized f32 HWC. training: augmented, as a function of (seed, epoch, index).
  // Returns false when the image is bad and the policy is to skip it (its label counts as -1 then).
  virtual bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, float* pixels) const = 0;
  virtual int64_t skipped() const { return 0; }  // bad images seen so far under data.bad_images: skip
};

struct Datasets {
  std::unique_ptr<Dataset> train, test;  // train: null where only the test set was asked for
  uint64_t fingerprint() const;
};
// Pixels of a side of the square images: data.image_size, or what the data set has by itself. UsageError: no such data
// set, or one whose images have another size.
int64_t image_side(const Config::Data&);
// Opens what config.data names and checks it (counts, classes == model.classes, record sizes) before step 1.
Datasets open_datasets(const Config&, bool training = true);

struct Batch {
  const float* images = nullptr;  // (count, H, W, C) f32, normalized
  Targets targets;                // (count); a padded sample, or a bad image of zeros, counts in no loss
  int64_t count = 0;              // this rank's share, always the same
  int64_t first = 0;              // global index of this rank's first sample in the global batch
  int64_t epoch = 0, step = 0;
};

// Prefetches batches on worker threads. Training: each epoch is a permutation keyed by (seed, epoch); the incomplete
// last batch is dropped; global batch b is samples [b * batch, (b+1) * batch) of the permutation, rank r takes the r-th
// part. Evaluation: in order, the last batch padded with images of label -1, every sample exactly once over all ranks.
class Loader {
 public:
  virtual ~Loader() = default;
  virtual int64_t batches_per_epoch() const = 0;
  // The next batch will be this global step's (evaluation: start(0) for each pass).
  virtual void start(int64_t step) = 0;
  virtual const Batch& next() = 0;          // valid until the next call
  virtual double wait_seconds() const = 0;  // that next() has waited since construction
  virtual double read_seconds() const = 0;  // processor time that the workers' reading has taken since construction
};
inline constexpr int64_t read_ahead = 4;  // batches that a loader's memory holds, from its first pass on
std::unique_ptr<Loader> make_loader(const Dataset&, bool training, int64_t global_batch, int rank, int size,
                                    int64_t workers, uint64_t seed);

}  // namespace octet
