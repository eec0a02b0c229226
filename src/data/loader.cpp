#include "src/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>

#include "kernels/base/error.h"
#include "src/data/augment/mixing.h"
#include "src/data/batch_order.h"
#include "src/data/draws.h"
#include "src/data/images/pixel_bytes.h"

namespace octet {
namespace {

// A ring of slots: the trainer holds one batch, and workers fill the others ahead of it. Workers take chunks of samples
// in order, so that each batch is ready as early as possible. The result does not depend on which worker reads a
// sample.
constexpr int64_t slots = read_ahead;

struct Slot {
  std::vector<uint8_t> images;
  std::vector<float> mixed;  // in place of them; empty without mixup
  std::vector<int32_t> labels;
  std::vector<int64_t> samples;       // -1: padded, or a bad image
  std::vector<int32_t> other_labels;  // of mixed samples, as in Targets
  std::vector<float> shares;
  std::vector<Truth> truths;  // of each sample
  Truth truth;                // of all, in order
  Batch batch;
  std::shared_ptr<const BatchOrder> order;
  int64_t pending = 0;  // samples not yet written
  std::exception_ptr error;
};

// Processor time of the calling thread.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

class PrefetchLoader : public Loader {
 public:
  PrefetchLoader(const Dataset& data, bool training, int64_t global_batch, int rank, int size, int64_t workers,
                 uint64_t seed, const Sampling& sampling)
      : data_(data),
        training_(training),
        seed_(seed),
        sampling_(sampling),
        global_batch_(global_batch),
        count_(global_batch / size),
        first_(count_ * rank),
        chunk_(std::max<int64_t>(1, count_ / (4 * workers))),
        batches_(batches_per_pass(data, training, global_batch)),
        objects_(data.annotations() != nullptr) {
    if (!training_) order_ = std::make_shared<const BatchOrder>(evaluation_order(data_, global_batch_));
    try {
      for (int64_t i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      end_workers();
      throw UsageError(__FILE__, __LINE__, say("no thread for worker ", workers_.size() + 1, ": ", error.what()),
                       "lower data.workers, or raise the limit of threads or memory");
    }
  }

  ~PrefetchLoader() override { end_workers(); }

  int64_t batches_per_epoch() const override { return batches_; }

  void start(int64_t step) override {
    REQUIRE(step >= 0, "this is a defect of octet: please report it", "a loader cannot start at step ", step);
    std::unique_lock lock(mutex_);
    cancel_ = true;
    done_.wait(lock, [&] { return busy_ == 0; });
    cancel_ = false;
    opened_ = taken_ = step;
    left_ = 0;
    started_ = true;
    lock.unlock();
    work_.notify_all();
  }

  const Batch& next() override {
    std::unique_lock lock(mutex_);
    require_more();
    const int64_t step = taken_++;  // frees the slot of the batch before it
    work_.notify_all();
    return wait_for(step, lock);
  }
  const Batch& ahead() override {
    std::unique_lock lock(mutex_);
    require_more();
    return wait_for(taken_, lock);
  }
  double wait_seconds() const override { return wait_seconds_; }
  double read_seconds() const override {
    std::lock_guard lock(mutex_);
    return read_seconds_;
  }

 private:
  void require_more() const {
    REQUIRE(started_, "call start() before next()", "this loader was never started");
    REQUIRE(training_ || taken_ < batches_, "call start(0) for each pass", "the evaluation pass is over");
  }
  const Batch& wait_for(int64_t step, std::unique_lock<std::mutex>& lock) {
    const auto begin = std::chrono::steady_clock::now();
    Slot& slot = ring_[step % slots];
    done_.wait(lock, [&] { return failure_ || (opened_ > step && slot.pending == 0); });
    if (failure_) std::rethrow_exception(failure_);
    wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (slot.error) std::rethrow_exception(slot.error);
    if (objects_) join(slot.truths, slot.truth);
    return slot.batch;
  }

  void end_workers() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  // Whether a worker may take a chunk of the open batch, or of the next one if its slot is free. Needs mutex_.
  bool available() const {
    if (!started_ || cancel_) return false;
    return left_ > 0 || ((training_ || opened_ < batches_) && opened_ - taken_ < slots - 1);
  }

  // Makes batch `opened_` the one that workers take chunks of. Needs mutex_.
  void open() {
    Slot& slot = ring_[opened_ % slots];
    const int64_t epoch = training_ ? opened_ / batches_ : 0;
    if (training_ && (!order_ || epoch != order_epoch_)) {
      order_ =
          std::make_shared<const BatchOrder>(training_order(data_, global_batch_, seed_, epoch, sampling_.balanced));
      order_epoch_ = epoch;
    }
    const int canvas = data_.canvas(order_->samples[opened_ % batches_ * global_batch_]);
    slot.images.resize(count_ * pixels_of(canvas) * pixel_channels);
    slot.labels.resize(count_);
    slot.samples.resize(count_);
    const bool real = training_ && sampling_.mixup > 0, mixes = real || (training_ && sampling_.cutmix > 0);
    slot.other_labels.resize(mixes ? count_ : 0);
    slot.shares.resize(mixes ? count_ : 0);
    slot.mixed.resize(real ? count_ * pixels_of(canvas) * 3 : 0);
    slot.truths.resize(count_);
    slot.order = order_;
    slot.pending = left_ = count_;
    slot.error = nullptr;
    const void* const images = real ? static_cast<const void*>(slot.mixed.data()) : slot.images.data();
    slot.batch = {.images = images,
                  .targets = {.labels = slot.labels.data(),
                              .other_labels = mixes ? slot.other_labels.data() : nullptr,
                              .shares = mixes ? slot.shares.data() : nullptr,
                              .truth = objects_ ? &slot.truth : nullptr},
                  .samples = slot.samples,
                  .count = count_,
                  .first = first_,
                  .epoch = epoch,
                  .step = opened_,
                  .canvas = canvas};
    ++opened_;
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return stop_ || available(); });
      if (stop_) return;
      try {
        if (left_ == 0) open();
      } catch (...) {  // no memory for the images, or for an order of that many samples
        failure_ = std::current_exception();
        done_.notify_all();
        return;
      }
      Slot& slot = ring_[(opened_ - 1) % slots];
      const int64_t from = count_ - left_, to = std::min(count_, from + chunk_);
      left_ = count_ - to;
      ++busy_;
      lock.unlock();
      const double start = processor_seconds();
      std::exception_ptr error;
      try {
        for (int64_t i = from; i < to && !stop_ && !cancel_; ++i) fill(slot, i);
      } catch (...) {
        error = std::current_exception();
      }
      const double taken = processor_seconds() - start;
      lock.lock();
      read_seconds_ += taken;
      --busy_;
      slot.pending -= to - from;
      if (error && !slot.error) slot.error = std::move(error);
      if (slot.pending == 0 || (cancel_ && busy_ == 0)) done_.notify_all();
    }
  }

  int64_t pixels_of(int canvas) const {
    const ImageShape shape = data_.canvas_shape(canvas);
    return shape.height * shape.width;
  }

  void fill(Slot& slot, int64_t i) const {
    const int64_t position = slot.batch.step % batches_ * global_batch_ + first_ + i;
    const int64_t count = pixels_of(slot.batch.canvas), index = slot.order->samples[position];
    uint8_t* pixels = slot.images.data() + i * count * pixel_channels;
    Truth& truth = slot.truths[i];
    truth.images.clear();
    truth.objects.clear();
    const bool present = data_.read_with_truth(index, training_, seed_, slot.batch.epoch, pixels, truth);
    if (!present) write_no_pixels(count, pixels);
    const bool counts = present && (slot.order->padding.empty() || !slot.order->padding[position]);
    slot.samples[i] = counts ? index : -1;
    slot.labels[i] = counts ? data_.label(index) : -1;
    if (!slot.shares.empty()) mix(slot, i, index, pixels);
    if (!counts && objects_) truth = {.images = {{.index = -1}}, .objects = {}};
  }

  // With the next sample of the global batch, as that is read for its own place, so that ranks need not communicate.
  void mix(Slot& slot, int64_t i, int64_t index, uint8_t* pixels) const {
    const auto [height, width, colors] = data_.canvas_shape(slot.batch.canvas);
    const int64_t count = height * width, batch = slot.batch.step % batches_ * global_batch_;
    const int64_t other = slot.order->samples[batch + (first_ + i + 1) % global_batch_];
    std::vector<uint8_t> others(slot.labels[i] < 0 ? 0 : count * pixel_channels);
    const bool mixed = !others.empty() && data_.read(other, true, seed_, slot.batch.epoch, others.data());
    const std::optional<Cut> cut =
        drawn_cut(seed_, slot.batch.epoch, index, sampling_.mixup, sampling_.cutmix, height, width);
    slot.other_labels[i] = mixed ? data_.label(other) : slot.labels[i];
    slot.shares[i] = 1;
    if (mixed && cut) slot.shares[i] = cut_pixels(pixels, others.data(), *cut, height, width);
    if (slot.mixed.empty()) return;
    float* const own = slot.mixed.data() + i * count * colors;
    normalize_pixels(sampling_.pixels, pixels, count, own);
    if (!mixed || cut) return;
    std::vector<float> numbers(count * colors);
    normalize_pixels(sampling_.pixels, others.data(), count, numbers.data());
    slot.shares[i] = mixup_share(seed_, slot.batch.epoch, index, sampling_.mixup);
    mix_pixels(own, numbers, slot.shares[i]);
  }

  static void join(const std::vector<Truth>& truths, Truth& all) {
    all.images.clear();
    all.objects.clear();
    for (const Truth& truth : truths)
      for (Truth::Image image : truth.images) {
        const auto first = truth.objects.begin() + image.first;
        image.first = static_cast<uint32_t>(all.objects.size());
        all.images.push_back(image);
        all.objects.insert(all.objects.end(), first, first + image.count);
      }
  }

  const Dataset& data_;
  const bool training_;
  const uint64_t seed_;
  const Sampling sampling_;
  const int64_t global_batch_, count_, first_, chunk_, batches_;
  const bool objects_;  // batches have truth

  mutable std::mutex
      mutex_;  // guards all below, except the samples of a slot: they belong to the worker that took them
  std::condition_variable work_, done_;
  Slot ring_[slots];                         // batch b is in slot b % slots
  std::shared_ptr<const BatchOrder> order_;  // of order_epoch_; evaluation: of every pass
  int64_t order_epoch_ = 0;
  int64_t taken_ = 0;   // batches below this number were given to the trainer
  int64_t opened_ = 0;  // batches below this number were opened; left_ samples of the last one are not taken
  int64_t left_ = 0;
  int64_t busy_ = 0;  // number of workers that are reading
  bool started_ = false;
  std::exception_ptr failure_;                       // no batch can be read any more
  std::atomic<bool> stop_ = false, cancel_ = false;  // written under mutex_, read by workers between two samples
  double wait_seconds_ = 0, read_seconds_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace

std::vector<uint32_t> epoch_order(int64_t size, uint64_t seed, int64_t epoch) {
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  Draws draws(seed, epoch, DrawStream::order, 0);
  for (int64_t i = size - 1; i > 0; --i) std::swap(order[i], order[draws.below(static_cast<uint32_t>(i + 1))]);
  return order;
}

std::unique_ptr<Loader> make_loader(const Dataset& data, bool training, int64_t global_batch, int rank, int size,
                                    int64_t workers, uint64_t seed, const Sampling& sampling) {
  REQUIRE_USAGE(size > 0 && rank >= 0 && rank < size && global_batch > 0 && global_batch % size == 0,
                say("set data.batch to a multiple of ", size), "a global batch of ", global_batch,
                " does not divide over ", size, " ranks");
  REQUIRE_USAGE(workers > 0, "set data.workers to 1 or more", "data.workers is ", workers);
  REQUIRE_USAGE(!training || data.size() >= global_batch, say("set data.batch to at most ", data.size()),
                "data.batch is ", global_batch, ", but the training set has only ", data.size(), " images");
  REQUIRE_USAGE(!training || batches_per_pass(data, true, global_batch) > 0,
                "lower data.batch, or give fewer or larger canvases", "data.batch is ", global_batch,
                ", but none of the ", data.canvases(), " canvases has that many images");
  return std::make_unique<PrefetchLoader>(data, training, global_batch, rank, size, workers, seed, sampling);
}

}  // namespace octet
