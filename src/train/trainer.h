// The training of one rank: gives each step its data and learning rate, evaluates, and restores weights.
#pragma once
#include <exception>
#include <functional>
#include <memory>

#include "comm/transport.h"
#include "src/config/config.h"
#include "src/data/loader.h"
#include "src/deploy/network.h"
#include "src/run/rank_watch.h"
#include "src/run/result.h"
#include "src/tasks/task.h"
#include "src/train/schedule.h"
#include "src/train/shares.h"
#include "src/train/training_state.h"
#include "src/train/training_step.h"

namespace octet {

// Of one process: its steps, and the seconds in them.
struct TrainingTime {
  int64_t steps = 0;
  double in_steps = 0;
};

class Trainer {
 public:
  // Collective. Checks before step 1 whatever can be checked then. training = false: for evaluate() only, without a
  // training set. heart: where this rank says what it does; without one, the trainer has a heart and a watchdog of its
  // own. open: opens the data instead of open_datasets().
  using OpenDatasets = std::function<Datasets()>;
  Trainer(const Config&, Transport&, bool training = true, Heart* heart = nullptr, const OpenDatasets& open = {});
  ~Trainer();

  // Collective. Runs one training step. stop: a signal has asked this rank to stop.
  StepReport step(int64_t index, bool stop);
  // Collective. Evaluates the weights, with train.ema their averages. stop: called before each batch. Null if stop() is
  // true on any rank. keeps_answers: see Task::judge.
  std::unique_ptr<Judge> evaluate(const std::function<bool()>& stop = {}, bool keeps_answers = false);
  // The integer network of a classifier's weights. UsageError: the policy or a layer has no integer form.
  IntegerNetwork integer_network();
  // Collective. Evaluates the integer network of the weights, or another one of the same images and classes, and for
  // comparison the training's own kernels. seen: called with this rank's batches and what the integers answer.
  // UsageError: the policy or a layer has no integer form.
  struct Comparison {
    std::unique_ptr<Judge> integers, training;
    int64_t images = 0, same = 0;    // of a classifier: images, and those for which both name the same class
    std::vector<std::string> notes;  // see IntegerLayers, and what the integers lose
  };
  using Seen = std::function<void(const Batch&, const Answers&)>;
  Comparison compare_integers(const IntegerNetwork* other = nullptr, const Seen& seen = {});
  // The codes of the network's tensors on the first images of a batch: by tensor, (images, H, W, C); of real numbers
  // nothing.
  std::vector<std::vector<std::byte>> codes(const IntegerNetwork&, const Batch&, int64_t images);
  // Collective. Loads the weights of the file model.initial_weights or model.initial_backbone, if one is set. Returns
  // what was loaded, as a sentence; empty: nothing.
  std::string load_initial_weights();
  // Loads all weights for evaluate(). UsageError: they are of another network or of other classes.
  void load_weights(const std::string& path);
  // Sets the index of the next step.
  void start(int64_t step);
  // Rank 0 begins to write files, and the others to wait for it.
  void expect_files();
  Heart& heart() { return *heart_; }

  // What a finished training has to tell, but for what RunFiles::finish() adds. test: the evaluation of the weights.
  Result result(const Judge& test, const StepCount&, const TrainingTime&);

  TrainingState state();
  TrainingStep& training_step() { return *step_; }
  const TrainingStep& training_step() const { return *step_; }
  Backend& backend() const { return step_->backend(); }
  const JobShares& shares() const { return *shares_; }
  // 1 if there is no training set. The schedule is not used then.
  int64_t steps_per_epoch() const { return train_loader_ ? train_loader_->batches_per_epoch() : 1; }
  double learning_rate_at(int64_t step) const;
  const Task& task() const { return task_; }
  const Datasets& datasets() const { return datasets_; }
  uint64_t data_fingerprint() const { return data_fingerprint_; }
  int64_t skipped_steps() const { return skipped_; }
  // test: the figures of the last evaluation. NonFiniteError: their loss is not finite, or the last steps were skipped
  // because their loss or gradient was not.
  void require_convergence(const Scalars& test = {}) const;
  double wait_seconds() const { return train_loader_->wait_seconds(); }  // time spent waiting for training data
  double read_seconds() const { return train_loader_->read_seconds(); }  // processor time of the loader's workers
  double hidden_share() const;  // share of the exchange's time that overlaps with backward

 private:
  bool answer_all(Judge&, const std::function<bool()>& stop);
  std::unique_ptr<Backend> backend_of(const Policy&) const;
  // other: its network in place of the task's. kept: for so many images, whose values do not share memory; 0: the
  // batch.
  std::unique_ptr<TrainingStep> make_step(std::unique_ptr<Policy>, std::unique_ptr<Backend>, bool training,
                                          const IntegerNetwork* other = nullptr, int64_t kept = 0);
  std::unique_ptr<TrainingStep> make_integer_step(IntegerLayers, const IntegerNetwork* other = nullptr,
                                                  int64_t kept = 0);
  void require_same_data();
  void require_same_classes(const SafetensorsFile&, const std::string& path) const;
  const Batch& next_batch();
  void send_next_batch();
  void count_skipped(const StepReport&, int64_t index);

  Config config_;  // with the number of classes
  Transport& transport_;
  const Task& task_;
  Datasets datasets_;
  uint64_t data_fingerprint_ = 0;
  std::unique_ptr<Loader> train_loader_, test_loader_;
  struct OwnWatch;
  std::unique_ptr<OwnWatch> own_watch_;
  Heart* heart_;
  std::unique_ptr<JobShares> shares_;
  std::unique_ptr<TrainingStep> step_;
  Batch batch_;                     // the last training batch that was read
  bool sent_ = false;               // batch_ is for the next step, and its upload to the device has begun
  std::exception_ptr ahead_error_;  // the error at reading the next step's batch; thrown if that step runs
  int64_t skipped_ = 0;
  int64_t empty_batches_ = 0, diverged_ = 0;  // the number of the last steps without an image, or that were not finite
};

}  // namespace octet
