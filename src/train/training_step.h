// The training step of one rank, with the plans, parameters, policy, exchange and clips. It reads and writes no files,
// so the trainer, the benches and the tests call the same step.
#pragma once
#include <functional>
#include <memory>

#include "comm/heart.h"
#include "comm/transport.h"
#include "kernels/base/error.h"
#include "src/config/config.h"
#include "src/graph/answers.h"
#include "src/graph/plan.h"
#include "src/quant/clip.h"

namespace octet {

// The training has diverged: a loss, gradient or weight is not finite. It has an exit code of its own.
class NonFiniteError : public Error {
 public:
  explicit NonFiniteError(const std::string& what,
                          const std::string& fix = "start again with a lower train.lr or more train.warmup_epochs")
      : Error(what, fix), reason(what) {}
  const std::string reason;  // without the fix
};

struct StepInput {
  // Of this rank, with (parts * batch) samples; Batch::step is the index of the step. It may not change before run()
  // returns, although `meanwhile` may read the next batch.
  const Batch& batch;
  double learning_rate = 0;
  double progress = 0;  // completed share of the training, 0 to 1
  bool sent = false;    // send() has been called with the images of the first part
  bool stop = false;    // this rank was asked to stop
};

struct StepReport {      // of one step, over all ranks
  Scalars figures;       // means over the samples; the first is the loss
  bool skipped = false;  // the step changed nothing: loss or gradient was not finite, or `empty`
  bool empty = false;    // no image of the batch could be read
  bool stop = false;     // some rank was asked to stop
  bool clips_updated = false;
  double saturated_activations = 0;  // share of all codes beyond their range
};

class TrainingStep {
 public:
  struct Options {
    PlanOptions plan;
    int64_t batch = 1;       // samples of this rank that are computed at once
    int parts = 1;           // so many times, one after the other, in each step
    int canvases = 1;        // sizes of images; each has plans of its own
    int threads = 1;         // of loops that no backend runs
    bool training = true;    // false: for evaluate() only
    Heart* heart = nullptr;  // is told what the step does
  };
  // Builds the graph of a plan. The graphs may differ in the sizes of images and, between training and evaluation, in
  // the last nodes, which have no parameters.
  using Network = std::function<Graph(const Policy&, bool training, int canvas)>;
  // Collective.
  TrainingStep(const Config&, Transport&, std::unique_ptr<Policy>, std::unique_ptr<Backend>, const Network&,
               const Options&);
  ~TrainingStep();

  // Collective. Runs one training step. meanwhile: host work to run while the device computes.
  StepReport run(const StepInput&, const std::function<void()>& meanwhile = {});
  // Encodes the current weights for evaluate().
  void begin_evaluation();
  // Exchanges the weights and their moving averages. Evaluation uses the averages; a second call restores the weights.
  // Without train.ema nothing happens.
  void swap_averages();
  // Collective. Moves the ranges of activations as a training step does, with the norms of evaluation, over one batch
  // of each rank, in one part. begin_evaluation() comes first. UsageError: the policy holds no ranges.
  void calibrate(const Batch&);
  // Forward over one batch of this rank, part by part. Logits and probabilities are there where they are wanted. sent:
  // as in StepInput; meanwhile: host work to run while the device computes.
  Answers evaluate(const Batch&, bool wants_probabilities = false, bool sent = false,
                   const std::function<void()>& meanwhile = {});

  const Policy& policy() const { return *policy_; }
  Backend& backend() const { return *backend_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }
  // The training plan of a canvas, or its evaluation plan if there is no training.
  Plan& plan(int canvas = 0) { return *(training_.empty() ? evaluation_ : training_)[size_t(canvas)]; }
  const Plan& plan(int canvas = 0) const { return *(training_.empty() ? evaluation_ : training_)[size_t(canvas)]; }
  Plan& evaluation_plan(int canvas) { return *evaluation_[size_t(canvas)]; }
  ClipCoordinator* clips() const { return clips_.get(); }
  ActivationRanges* ranges() const { return ranges_.get(); }
  const GradientExchange& exchange() const { return *exchange_; }
  PhaseTimes& times() { return times_; }
  void time_phases(bool on) { timing_ = on; }
  bool times_phases() const { return timing_; }

 private:
  // Sequences of calls that a device may record, see Backend::run().
  struct Program {
    enum class Of : uint8_t { update, evaluation, gradients } of;
    bool first = true, last = true;  // of the parts
    bool observed = false;           // clips are searched
    bool forced = false;             // with the sample of forced searches
    int id() const {
      return of == Of::gradients ? 2 + (first ? 1 : 0) + (last ? 2 : 0) + (observed ? 4 : 0) + (forced ? 8 : 0)
                                 : int(of);
    }
    static constexpr int count = 18;  // of ids
  };
  void run(Program, const Step&, const Batch&, double learning_rate, const std::function<void()>& work);
  void begin(int64_t index);
  void enter(const Activity& activity) {
    if (heart_) heart_->enter(activity);
  }
  void prime(const Batch&);
  void compute_gradients(Plan&, Step&, const StepInput&, int part);
  Step load(Plan&, const Batch&, int part, bool training, bool sent = false);
  Targets targets_of(const Targets& all, int64_t first, int64_t count);
  void encode_weights(const Step&);
  void finish_exchange();
  StepReport agree(Plan&, const Step&, const StepInput&, Metrics of_parts);
  HeldRanges held() const { return {clips_.get(), ranges_.get()}; }
  bool settled() const { return (!clips_ || clips_->settled()) && (!ranges_ || ranges_->settled()); }
  void keep_moments();
  void average_moments();
  void refuse_nonfinite(Plan&, const Step&, int64_t index, const std::string& own);
  void update(const StepInput&);
  void update_by_sgd(const StepInput&);
  void update_by_adamw(const StepInput&);
  float decay_of(const Param&) const;
  float rate_factor_of(const Param&) const;
  void move_averages(int64_t index);

  const Config config_;
  Transport& transport_;
  const int threads_, parts_;
  Heart* const heart_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transport> clip_transport_;
  std::unique_ptr<ClipCoordinator> clips_;
  std::unique_ptr<ActivationRanges> ranges_;
  std::unique_ptr<Parameters> parameters_;
  // By canvas. Those of priming compute one norm group, and are there for the exact exchange alone.
  std::vector<std::unique_ptr<Plan>> training_, evaluation_, priming_;
  std::unique_ptr<Buffer> arena_;  // shared by all plans
  std::unique_ptr<GradientExchange> exchange_;
  Truth truth_;                 // of the part that is being computed
  std::vector<float> moments_;  // of the parts that were computed
  PhaseTimes times_;
  bool timing_ = false;
};

}  // namespace octet
