#include "src/train/trainer.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "comm/agreement.h"
#include "src/graph/models.h"
#include "src/train/digest.h"
#include "src/train/dry_plan.h"
#include "src/train/gradient_exchange.h"
#include "src/train/schedule.h"

namespace octet {
namespace {

std::vector<float> values_of(Backend& backend, const Tensor& t) {
  std::vector<float> values(size_t(t.elements()));
  backend.to_host(values.data(), t.data, t.bytes());
  return values;
}

// OHWI (the plan's) <-> OIHW (torchvision's).
std::vector<float> to_oihw(Backend& backend, const Tensor& t) {
  const Shape& s = t.shape;
  const std::vector<float> in = values_of(backend, t);
  std::vector<float> out(in.size());
  for (int64_t o = 0; o < s.n; ++o)
    for (int64_t y = 0; y < s.h; ++y)
      for (int64_t x = 0; x < s.w; ++x)
        for (int64_t i = 0; i < s.c; ++i)
          out[size_t(((o * s.c + i) * s.h + y) * s.w + x)] = in[size_t(((o * s.h + y) * s.w + x) * s.c + i)];
  return out;
}
void from_oihw(Backend& backend, std::span<const float> in, const Tensor& t) {
  const Shape& s = t.shape;
  std::vector<float> out(in.size());
  for (int64_t o = 0; o < s.n; ++o)
    for (int64_t y = 0; y < s.h; ++y)
      for (int64_t x = 0; x < s.w; ++x)
        for (int64_t i = 0; i < s.c; ++i)
          out[size_t(((o * s.h + y) * s.w + x) * s.c + i)] = in[size_t(((o * s.c + i) * s.h + y) * s.w + x)];
  backend.to_device(t.data, out.data(), t.bytes());
}

std::vector<int64_t> torch_shape(const Param& param) {
  const Shape& s = param.shape;
  if (!is_weight(param.kind)) return {s.c};
  if (param.kind == ParamKind::linear_weight) return {s.n, s.h * s.w * s.c};
  return {s.n, s.c, s.h, s.w};
}

}  // namespace

int allowed_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

PlanOptions plan_options(const Config& config) {
  PlanOptions options;
  // The other policies compute in f32 between their own roundings.
  options.storage = config.storage == "f32" || config.policy.name != "unified_int8" ? DType::f32
                    : config.storage == "int8"                                      ? DType::s8
                                                                                    : DType::bf16;
  return options;
}

int threads_of_rank(const Config& config, const Transport& transport) {
  return config.backend.threads > 0 ? int(config.backend.threads)
                                    : std::max(1, allowed_cores() / transport.local_size());
}

std::unique_ptr<Backend> make_backend(const Config& config, const Policy& policy, const Transport& transport) {
  RealConvolution real = policy.real_convolution();
  if (real == RealConvolution::fixed_order && config.backend.real_layers == "library") real = RealConvolution::library;
  if (config.backend.device == "cuda")
    return make_cuda_backend({.device = transport.local_rank(),
                              .check_every_kernel = config.backend.check_kernels,
                              .record = config.backend.graph,
                              .real = real});
  CpuOptions options;
  options.isa = config.backend.isa.empty() ? best_isa() : isa_from_name(config.backend.isa);
  options.threads = threads_of_rank(config, transport);
  options.real = real;
  omp_set_num_threads(options.threads);  // for the loops of simulated policies
  return make_cpu_backend(options);
}

Trainer::Trainer(const Config& config, Transport& transport, PlanOptions plan, bool training)
    : config_(config), transport_(transport), policy_(make_policy(config)) {
  const int64_t batch = batch_of_rank(config, transport.size());
  backend_ = make_backend(config, *policy_, transport);
  datasets_ = open_datasets(config, training);
  if (config.comm.timeout_seconds > 0) {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    watchdog_ = std::make_unique<Watchdog>(config.comm.timeout_seconds, transport.rank(), host,
                                           [this] { transport_.abort(1); });
  }
  require_same_data();
  const uint64_t seed = uint64_t(config.seed);
  if (training)
    train_loader_ = make_loader(*datasets_.train, true, config.data.batch, transport.rank(), transport.size(),
                                config.data.workers, seed);
  test_loader_ = make_loader(*datasets_.test, false, config.data.batch, transport.rank(), transport.size(),
                             config.data.workers, seed);
  if (policy_->needs_clips()) {
    clip_transport_ = transport.duplicate();
    clips_ = std::make_unique<ClipCoordinator>(config.policy, *clip_transport_, *backend_);
  }
  const ImageShape image = datasets_.test->shape();
  plan_ =
      std::make_unique<Plan>(make_model(config.model, image.height, image.width, float(config.train.label_smoothing)),
                             *policy_, *backend_, clips_.get(), batch, plan);
  plan_->initialize_parameters(seed);
  exchange_ = make_gradient_exchange(config, transport, *backend_, *plan_);
  check_agreement();
}

Trainer::~Trainer() = default;

// Ranks count their steps by their own data, and would wait for each other for ever.
void Trainer::require_same_data() {
  uint64_t first = data_fingerprint_ = datasets_.fingerprint();
  transport_.broadcast(std::as_writable_bytes(std::span(&first, 1)), 0);
  REQUIRE_USAGE(data_fingerprint_ == first, "give every rank the same files under its data.root",
                "this rank and rank 0 have different data; here: ",
                datasets_.train ? say(datasets_.train->describe(), "; ") : "", datasets_.test->describe());
}

Report Trainer::step(int64_t index, bool stop) {
  train_step_ = index;
  if (watchdog_) watchdog_->phase("training step", index + 1);
  const Batch& batch = next_batch();
  Step step = begin(index, batch, true);  // index, backend, random keys, clips

  run(clips_ && clips_->observing() ? Program::observed_gradients : Program::gradients, step, [&] {
    exchange_->begin(step.index);
    plan_->encode_weights(step);        // f32 masters -> int8 codes + scale
    plan_->forward(step);               // codes + scale between nodes
    plan_->backward(step, *exchange_);  // a finished bucket starts its quantized all-reduce here
    finish_exchange();                  // every rank holds the sum of all gradients
    plan_->find_nonfinite();
  });
  send_next_batch();  // a GPU computes meanwhile
  Report report = agree(step, index, stop);
  if (!report.skipped) {
    report.clips_updated =
        clips_ && clips_->update();  // on a due step rank 0 decides clips and learning-rate scales for all
    run(Program::update, step, [&] {
      plan_->commit(step);  // running statistics, from moments that the ranks averaged
      update(index);        // f32 masters, momentum, decay
    });
  } else if (clips_) {
    clips_->postpone();
  }
  return report;
}

void Trainer::run(Program program, const Step& step, const std::function<void()>& work) {
  // Phases are timed call by call; on the host's gradients an exchange waits for peers, and so do clips that are
  // unknown.
  const bool exchanges = program == Program::gradients || program == Program::observed_gradients;
  const bool measures = exchanges && clips_ && !clips_->settled();
  if (timing_ || measures || (exchanges && exchange_->reads_gradients())) return work();
  backend_->run(
      int(program),
      {step.index, float(learning_rate(config_.train, step.index, steps_per_epoch())), uint64_t(step.first_sample)},
      work);
}

const Batch& Trainer::next_batch() {
  Timed timed(timing_ ? &times_ : nullptr, Phase::data_wait);
  if (ahead_error_) std::rethrow_exception(ahead_error_);
  if (!sent_) batch_ = train_loader_->next();
  return batch_;
}

void Trainer::send_next_batch() {
  if (!plan_->sends() || timing_) return;
  try {
    batch_ = train_loader_->next();
  } catch (...) {  // this step is well, and may be the last
    ahead_error_ = std::current_exception();
    return;
  }
  plan_->send(batch_.images);
  sent_ = true;
}

Step Trainer::begin(int64_t index, const Batch& batch, bool training) {
  Step step{.backend = *backend_, .memory = plan_->memory()};
  step.clips = clips_.get();
  step.times = timing_ ? &times_ : nullptr;
  step.index = uint32_t(index);
  step.training = training;
  step.seed = uint64_t(config_.seed);
  step.first_sample = batch.first;
  step.gradient_scale = policy_->loss_scale() / float(config_.data.batch);
  plan_->load(step, batch.images, batch.labels, training && sent_);
  if (training) sent_ = false;
  if (training && clips_) clips_->begin(index);
  if (training) plan_->choose_weight_clips();
  return step;
}

void Trainer::finish_exchange() {
  if (watchdog_) watchdog_->phase("gradient exchange", train_step_ + 1);
  Timed timed(timing_ ? &times_ : nullptr, Phase::exchange);
  exchange_->finish();
  if (exchange_->reads_gradients()) plan_->store_gradients();
}

// One small message after backward: loss and counts of all ranks, saturations, "stop" and "not finite", on which every
// rank must act alike; and the batch moments, so that running statistics are the same on every rank.
Report Trainer::agree(const Step& step, int64_t index, bool stop) {
  Timed timed(step.times, Phase::exchange);
  exchange_->wait();
  const auto [loss, finite_gradients] = plan_->outcome(true);
  const bool finite = std::isfinite(loss.loss_sum) && finite_gradients;
  const int layers = clips_ ? clips_->layers() : 0;
  std::vector<double> sums(size_t(6 + 2 * layers));
  sums[0] = finite ? 0 : 1;
  sums[1] = stop ? 1 : 0;
  sums[2] = finite ? loss.loss_sum : 0;
  sums[3] = double(loss.top1);
  sums[4] = double(loss.top5);
  sums[5] = double(loss.count);
  if (clips_) clips_->counts(std::span(sums).subspan(6));
  transport_.all_reduce_sum(std::span(sums));
  if (transport_.size() > 1) {
    const Tensor shared = plan_->shared_moments();
    std::vector<float> moments = values_of(*backend_, shared);
    transport_.all_reduce_sum(std::span(moments));
    for (float& value : moments) value /= float(transport_.size());
    backend_->to_device(shared.data, moments.data(), shared.bytes());
  }
  if (clips_) clips_->judge(std::span(sums).subspan(6));

  Report report;
  report.stop = sums[1] > 0;
  report.empty = sums[5] == 0;
  report.skipped = sums[0] > 0 || report.empty;
  report.learning_rate = learning_rate(config_.train, index, steps_per_epoch());
  report.loss = report.skipped ? std::numeric_limits<double>::quiet_NaN() : sums[2] / sums[5];
  report.top1 = report.empty ? 0 : sums[3] / sums[5];
  report.top5 = report.empty ? 0 : sums[4] / sums[5];
  // Of a few small batches it may be chance.
  empty_batches_ = report.empty ? empty_batches_ + 1 : 0;
  REQUIRE(empty_batches_ < 10, "see whether the data still is where data.root says", "step ", index + 1,
          ": no image of the last ", empty_batches_, " batches could be read");
  if (report.skipped) ++skipped_;
  if (sums[0] > 0 && config_.train.on_nonfinite == "stop") {
    Step inspected = step;
    const std::string where = plan_->first_nonfinite(inspected);
    REQUIRE(false,
            "start anew with a lower train.lr or more train.warmup_epochs, or resume with train.on_nonfinite: skip",
            "step ", index + 1, ": loss or gradient is not finite; first at ",
            where.empty() ? std::string("another rank") : "'" + where + "'");
  }
  return report;
}

void Trainer::update(int64_t index) {
  Timed timed(timing_ ? &times_ : nullptr, Phase::update);
  UpdateContext context;
  SgdProblem& sgd = context.sgd;
  context.progress = double(index) / double(config_.train.epochs * steps_per_epoch());
  sgd.learning_rate = float(learning_rate(config_.train, index, steps_per_epoch()));
  sgd.momentum = float(config_.train.momentum);
  sgd.nesterov = config_.train.nesterov;
  uint32_t site = 0x40000000u;  // beyond those of nodes, below those of initial values
  for (Param& param : plan_->params()) {
    const bool decays = is_weight(param.kind) || config_.train.decay_norm;
    sgd.decay = decays ? float(config_.train.decay) : 0;
    context.weight = is_weight(param.kind);
    context.spared = param.spared;
    context.lr_scale = param.lr_scale;
    context.key = {uint64_t(config_.seed), uint32_t(index), site++, 0};
    policy_->update(*backend_, context, param.master, param.gradient, param.velocity);
  }
  if (timing_) backend_->synchronize();
}

std::optional<Report> Trainer::evaluate(const std::function<bool()>& stop) {
  check_agreement();
  test_loader_->start(0);
  LossReport total;
  for (int64_t b = 0; b < test_loader_->batches_per_epoch(); ++b) {
    if (watchdog_) watchdog_->phase("evaluation batch", b + 1);
    if (stop) {
      double stops[] = {stop() ? 1.0 : 0.0};
      transport_.all_reduce_sum(std::span<double>(stops));
      if (stops[0] > 0) return std::nullopt;
    }
    const Batch& batch = test_loader_->next();
    Step step = begin(b, batch, false);
    if (b == 0) {
      plan_->choose_weight_clips();
      plan_->encode_weights(step);
    }
    run(Program::evaluation, step, [&] { plan_->forward(step); });
    const LossReport loss = plan_->outcome(false).loss;
    total.loss_sum += loss.loss_sum;
    total.top1 += loss.top1;
    total.top5 += loss.top5;
    total.count += loss.count;
  }
  double sums[] = {total.loss_sum, double(total.top1), double(total.top5), double(total.count)};
  transport_.all_reduce_sum(std::span<double>(sums));
  REQUIRE(sums[3] > 0, "see whether the data still is where data.root says", "no image of the test set could be read");
  Report report;
  const double count = sums[3];
  report.loss = sums[0] / count;
  report.top1 = sums[1] / count;
  report.top5 = sums[2] / count;
  return report;
}

void Trainer::check_agreement() {
  std::vector<std::string> names;
  std::vector<uint64_t> hashes;
  for (const Param& param : plan_->params()) {
    names.push_back(param.name);
    hashes.push_back(xxh3(std::span<const float>(values_of(*backend_, param.master))));
  }
  for (const Statistic& statistic : plan_->statistics()) {
    names.push_back(statistic.name);
    hashes.push_back(xxh3(std::span<const float>(values_of(*backend_, statistic.tensor))));
  }
  octet::check_agreement(transport_, names, hashes);
}

std::vector<NamedTensor> Trainer::save(std::vector<std::vector<float>>& storage, bool weights_only) const {
  std::vector<NamedTensor> tensors;
  storage.clear();
  storage.reserve(plan_->params().size() * 2 + plan_->statistics().size() + 1);
  const auto add = [&](std::string name, std::vector<int64_t> shape, std::vector<float> values) {
    storage.push_back(std::move(values));
    tensors.push_back({std::move(name), std::move(shape), storage.back()});
  };
  for (const Param& param : plan_->params()) add(param.name, torch_shape(param), to_oihw(*backend_, param.master));
  for (const Statistic& statistic : plan_->statistics()) {
    if (weights_only && statistic.of_training) continue;
    add(statistic.name, {statistic.tensor.shape.c}, values_of(*backend_, statistic.tensor));
  }
  if (weights_only) return tensors;
  for (const Param& param : plan_->params())
    add("momentum." + param.name, torch_shape(param), to_oihw(*backend_, param.velocity));
  if (clips_) {
    const ClipCoordinator::State state = clips_->state();
    std::vector<float> table;
    for (const ClipChoice& choice : state.choices)
      table.insert(table.end(), {choice.clip, choice.cosine_distance, choice.lr_scale, choice.saturated});
    table.push_back(state.forced ? 1.0f : 0.0f);
    const int64_t count = int64_t(table.size());
    add("clips", {count}, std::move(table));
  }
  return tensors;
}

void Trainer::load(const SafetensorsFile& file, const std::string& path, bool weights_only) {
  const auto read = [&](const std::string& name, const std::vector<int64_t>& shape) {
    REQUIRE(file.contains(name), "use a checkpoint of the same model", path, " has no tensor `", name, "`");
    REQUIRE(file.shape(name) == shape, "use a checkpoint of the same model", path, ": tensor `", name,
            "` has another shape than the network's");
    return file.f32(name);
  };
  for (Param& param : plan_->params()) from_oihw(*backend_, read(param.name, torch_shape(param)), param.master);
  for (Statistic& statistic : plan_->statistics()) {
    if (weights_only && statistic.of_training) continue;
    const auto values = read(statistic.name, {statistic.tensor.shape.c});
    backend_->to_device(statistic.tensor.data, values.data(), statistic.tensor.bytes());
  }
  if (weights_only) return;
  for (Param& param : plan_->params())
    from_oihw(*backend_, read("momentum." + param.name, torch_shape(param)), param.velocity);
  if (clips_) {
    const auto table = read("clips", {int64_t(clips_->layers()) * 4 + 1});
    ClipCoordinator::State state;
    for (int layer = 0; layer < clips_->layers(); ++layer)
      state.choices.push_back({table[4 * layer], table[4 * layer + 1], table[4 * layer + 2], table[4 * layer + 3]});
    state.forced = table.back() != 0;
    clips_->restore(state);
  }
}

void Trainer::load_initial_weights() {
  const std::string& path = config_.model.initial_weights;
  if (path.empty()) return;
  const SafetensorsFile file = SafetensorsFile::open(path);
  file.require_finite();
  load(file, path, true);
  check_agreement();
}

std::string Trainer::weights_sha256() const {
  std::vector<std::vector<float>> storage;
  return octet::weights_sha256(save(storage, true));
}

void Trainer::broadcast_state() {
  const auto send = [&](const Tensor& tensor) {
    std::vector<float> values = values_of(*backend_, tensor);
    transport_.broadcast(std::as_writable_bytes(std::span(values)), 0);
    backend_->to_device(tensor.data, values.data(), tensor.bytes());
  };
  for (Param& param : plan_->params()) send(param.master), send(param.velocity);
  for (Statistic& statistic : plan_->statistics()) send(statistic.tensor);
  if (!clips_) return;
  ClipCoordinator::State state = clips_->state();
  transport_.broadcast(std::as_writable_bytes(std::span(state.choices)), 0);
  float forced = state.forced ? 1.0f : 0.0f;
  transport_.broadcast(std::as_writable_bytes(std::span(&forced, 1)), 0);
  state.forced = forced != 0;
  clips_->restore(state);
}

int64_t Trainer::wire_bytes() const { return exchange_->wire_bytes(); }

double Trainer::exchange_busy_seconds() const { return exchange_->busy_seconds(); }

double Trainer::hidden_share() const {
  const double busy = exchange_->busy_seconds();
  return busy > 0 ? std::max(0.0, 1 - exchange_->wait_seconds() / busy) : 0;
}

}  // namespace octet
