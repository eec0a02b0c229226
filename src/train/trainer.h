// The training of one rank: builds the plan from the configuration, runs steps, evaluates, saves and restores.
#pragma once
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "comm/watchdog.h"
#include "src/config/config.h"
#include "src/data/loader.h"
#include "src/graph/plan.h"
#include "src/quant/clip.h"
#include "src/train/safetensors.h"

namespace octet {

struct Report {                         // of one step, over all ranks
  double loss = 0, top1 = 0, top5 = 0;  // means over the samples
  double learning_rate = 0;
  bool skipped = false;  // the step changed nothing: loss or gradient was not finite, or
  bool empty = false;    // no image of the batch could be read
  bool stop = false;     // some rank was asked to stop
  bool clips_updated = false;
};

class Trainer {
 public:
  // Collective. Checks everything that can be known before step 1. training: false: for evaluate() alone, without a
  // training set.
  Trainer(const Config&, Transport&, PlanOptions, bool training = true);
  ~Trainer();

  // Collective: one training step, on one screen. stop: this rank was asked to stop (a signal).
  Report step(int64_t index, bool stop);
  // Collective: loss, top-1 and top-5 over the whole test set, every sample once. stop: asked before each batch;
  // nothing is returned when it is true on any rank.
  std::optional<Report> evaluate(const std::function<bool()>& stop = {});
  // Collective: every rank holds the same parameters and running statistics, or an Error names the first that differs.
  void check_agreement();

  // Everything that a resumed run needs, in torchvision's names and layouts (OIHW), plus `momentum.<name>` and `clips`.
  // weights_only: what `octet eval` needs. The spans live as long as `storage`.
  std::vector<NamedTensor> save(std::vector<std::vector<float>>& storage, bool weights_only) const;
  // Missing or misshapen tensors are Errors that name them.
  void load(const SafetensorsFile&, const std::string& path, bool weights_only);
  // Collective. Those of model.initial_weights, if it names a file.
  void load_initial_weights();
  // Collective: rank 0's parameters, momentum, statistics and clips become everyone's.
  void broadcast_state();
  std::string weights_sha256() const;

  // 1 without a training set, whose schedule nobody follows.
  int64_t steps_per_epoch() const { return train_loader_ ? train_loader_->batches_per_epoch() : 1; }
  void start(int64_t step) {
    train_loader_->start(step);
    sent_ = false;
    ahead_error_ = nullptr;
  }
  const Plan& plan() const { return *plan_; }
  Backend& backend() { return *backend_; }
  const ClipCoordinator* clips() const { return clips_.get(); }
  const Datasets& datasets() const { return datasets_; }
  uint64_t data_fingerprint() const { return data_fingerprint_; }
  PhaseTimes& times() { return times_; }
  double wait_seconds() const { return train_loader_->wait_seconds(); }  // for training data
  int64_t wire_bytes() const;
  double read_seconds() const { return train_loader_->read_seconds(); }  // processor time of the loader's workers
  double exchange_busy_seconds() const;                                  // of the communication thread
  double hidden_share() const;                                           // of the exchange's time, behind backward
  int64_t skipped_steps() const { return skipped_; }
  void time_phases(bool on) { timing_ = on; }

 private:
  void require_same_data();
  const Batch& next_batch();
  void send_next_batch();
  void finish_exchange();
  // What a device may record: see Backend::run().
  enum class Program : uint8_t { gradients, observed_gradients, update, evaluation };
  void run(Program, const Step&, const std::function<void()>& work);
  Step begin(int64_t index, const Batch&, bool training);
  Report agree(const Step&, int64_t index, bool stop);
  void update(int64_t index);

  Config config_;
  Transport& transport_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Backend> backend_;
  Datasets datasets_;
  uint64_t data_fingerprint_ = 0;
  std::unique_ptr<Loader> train_loader_, test_loader_;
  Batch batch_;                     // of training, the last one taken
  bool sent_ = false;               // it is the next step's, and on its way to the device
  std::exception_ptr ahead_error_;  // why the next step's batch cannot be had: that step's error, if there is one
  std::unique_ptr<Transport> clip_transport_;
  std::unique_ptr<ClipCoordinator> clips_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<GradientExchange> exchange_;
  std::unique_ptr<Watchdog> watchdog_;
  PhaseTimes times_;
  bool timing_ = false;
  int64_t skipped_ = 0, empty_batches_ = 0, train_step_ = 0;
};

// The backend the configuration asks for.
std::unique_ptr<Backend> make_backend(const Config&, const Policy&, const Transport&);
PlanOptions plan_options(const Config&);
// backend.threads; 0 means this rank's share of the allowed cores.
int threads_of_rank(const Config&, const Transport&);
int allowed_cores();  // of this process's affinity mask

}  // namespace octet
