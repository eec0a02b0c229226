// Data sets and the batches made from them. Order and augmentation are functions of (seed, epoch, index), so the batch
// of any step can be produced directly: resuming costs nothing, and ranks need not communicate.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/shared/pixels.h"
#include "src/config/config.h"
#include "src/objects.h"
#include "src/sample.h"

namespace octet {

struct ImageShape {
  int64_t height = 32, width = 32, channels = 3;
  bool operator==(const ImageShape&) const = default;
};

// The classes of the data that a network is trained on.
struct Classes {
  std::vector<std::string> names;     // by label; empty: unknown
  std::vector<int64_t> category_ids;  // by label; empty: the data have no objects
};

// Decoded samples; thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual int64_t classes() const = 0;
  virtual ImageShape shape() const = 0;      // of the samples; of the first canvas where there are several
  virtual std::string describe() const = 0;  // one line: what the samples are, and where
  virtual int32_t label(int64_t index) const = 0;
  // A hash of the samples and their order: of pixels and labels, or of the names of files.
  virtual uint64_t fingerprint() const = 0;
  // Writes sample `index` as (H, W, 4) bytes, see PixelScale. training: augmented, as a function of (seed, epoch,
  // index). Returns false for a bad image where data.bad_images is skip; its label counts as -1 then.
  virtual bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const = 0;
  virtual std::vector<std::string> class_names() const { return {}; }  // by label; empty: the classes have no names
  // The file of a sample below the folder of its data set; empty: it has none.
  virtual std::string file_of(int64_t /*index*/) const { return {}; }
  // Memory that reading a sample takes beside its pixels, at most, in bytes; opens the file. Of a bad image 0.
  virtual int64_t bytes_to_read(int64_t /*index*/, bool /*training*/) const { return 0; }
  virtual int64_t skipped() const { return 0; }  // number of bad images that were skipped so far
  // Gives the samples the labels that `known` has for the classes of the same names. Before the first read. UsageError:
  // a class is not among them. A source whose splits always have the same classes does nothing.
  virtual void number_as(const Classes& /*known*/) {}
  virtual std::vector<std::string> absent_classes() const { return {}; }  // names of classes of which it has nothing

  // Samples may have several shapes, the canvases; the samples of a batch have one.
  virtual int canvases() const { return 1; }
  virtual ImageShape canvas_shape(int) const { return shape(); }
  virtual int canvas(int64_t) const { return 0; }  // of a sample
  // The objects of all images, sample after sample, for evaluation. Null: the data has labels alone.
  virtual const Annotations* annotations() const { return nullptr; }
  // Reads as read(), and appends the image and its objects to `truth`. Data without objects appends nothing.
  virtual bool read_with_truth(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels,
                               Truth&) const {
    return read(index, training, seed, epoch, pixels);
  }
};

Classes classes_of(const Dataset&);

struct Datasets {
  std::unique_ptr<Dataset> train, test;  // train: null where only the test set was opened
  uint64_t fingerprint() const;
  int64_t skipped() const { return (train ? train->skipped() : 0) + test->skipped(); }  // bad images so far
};
std::vector<std::string> data_source_names();  // the values of data.name
// Height and width of the square images in pixels: data.image_size, or that of the data source. UsageError: there is no
// such source, its images have another size, or it needs a data.root.
int64_t image_side(const Config::Data&);
// Opens the data source of config.data and checks counts, record sizes and that it has model.classes classes. The test
// set has the labels of the training set, by the names of the classes. Without a training set it has those of `known`,
// the classes of a network, if it has no others; or those of the data's training set if otherwise their number would
// not be model.classes. Warns of classes that the test set lacks.
Datasets open_datasets(const Config&, bool training = true, const Classes& known = {});

// The objects of the test set. Opens no image of data that have annotations in files. UsageError: the data have none.
Annotations test_annotations(const Config&);

// Reads batches ahead on worker threads. Training: each epoch is a permutation keyed by (seed, epoch), or a balanced
// order, without incomplete batches. Evaluation: samples in order, each exactly once over all ranks; the last batch of
// a canvas is padded with images of label -1, which are no samples: Batch::samples is -1. batch_order.h says which
// samples a global batch holds; rank r takes the r-th part of each.
class Loader {
 public:
  virtual ~Loader() = default;
  virtual int64_t batches_per_epoch() const = 0;
  // The next batch will be that of this global step. Evaluation: start(0) before each pass.
  virtual void start(int64_t step) = 0;
  virtual const Batch& next() = 0;          // valid until the next call
  virtual const Batch& ahead() = 0;         // what next() will give; the batch before it stays valid
  virtual double wait_seconds() const = 0;  // time that next() has waited, since construction
  virtual double read_seconds() const = 0;  // processor time of the workers' reading, since construction
};
// The order in which an epoch visits the samples: a permutation of 0 .. size - 1 that is a function of (seed, epoch),
// from Fisher and Yates' shuffle.
std::vector<uint32_t> epoch_order(int64_t size, uint64_t seed, int64_t epoch);
inline constexpr int64_t read_ahead = 4;  // number of batches in the memory of a loader, from its first pass on

// How training chooses and mixes samples.
struct Sampling {
  bool balanced = false;   // every class equally often
  double mixup = 0;        // see mixup_share(); 0: no sample is mixed in this way
  double cutmix = 0;       // see drawn_cut()
  PixelScale pixels = {};  // of the samples where mixup is above 0, which are real numbers
};
std::unique_ptr<Loader> make_loader(const Dataset&, bool training, int64_t global_batch, int rank, int size,
                                    int64_t workers, uint64_t seed, const Sampling& = {});

}  // namespace octet
