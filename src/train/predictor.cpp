#include "src/train/predictor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "src/deploy/fold.h"
#include "src/deploy/integer_policy.h"
#include "src/train/needed_pixels.h"
#include "src/train/network_form.h"
#include "src/train/rank.h"
#include "src/train/shares.h"
#include "src/train/training_state.h"
#include "src/version.h"
#include "src/weights/class_names.h"
#include "src/weights/pixel_normalization.h"
#include "src/weights/recipe.h"

namespace octet {

Predictor::Predictor(const Config& config, Transport& transport, const std::string& weights)
    : config_(config), transport_(transport), path_(weights), weights_(open_weights(weights)), task_(task_of(config)) {
  REQUIRE_USAGE(transport.size() == 1, "start it without mpirun", "this command runs on one rank, not on ",
                transport.size());
  config_.train.norm_group = 0;  // evaluation takes no moments, and a batch may be of any size
  classes_ = read_classes(weights_, weights);
  const auto known = static_cast<int64_t>(classes_.names.size());
  REQUIRE_USAGE(known > 0 || config.model.classes > 0, "set model.classes", weights,
                " does not say which classes its network knows");
  REQUIRE_USAGE(known == 0 || config.model.classes == 0 || config.model.classes == known,
                say("set model.classes to ", known), "model.classes is ", config.model.classes, ", but ", weights,
                " was trained on ", known, " classes");
  require_same_form(weights_, weights, config);
  warn_of_other_pixels(weights_, weights, config);
  knows_names_ = known > 0;
  if (knows_names_) {
    config_.model.classes = known;
    return;
  }
  for (int64_t label = 0; label < config.model.classes; ++label) classes_.names.push_back(std::to_string(label));
}

std::unique_ptr<TrainingStep> Predictor::make_network(const Dataset& data, std::unique_ptr<Policy> policy) const {
  const JobShares shares(transport_, int(config_.backend.threads));
  auto backend = make_backend(config_, *policy, transport_, shares, bytes_read_ahead(config_, batch_of(data)));
  return std::make_unique<TrainingStep>(
      config_, transport_, std::move(policy), std::move(backend),
      [&](const Policy& p, bool trains, int canvas) {
        const ImageShape shape = data.canvas_shape(canvas);
        return task_.network(config_, p, shape.height, shape.width, trains);
      },
      TrainingStep::Options{.plan = {.storage = storage_of(config_), .pixels = normalization_of(config_.data).pixels()},
                            .batch = batch_of(data),
                            .canvases = data.canvases(),
                            .threads = shares.threads(),
                            .training = false});
}

std::unique_ptr<TrainingStep> Predictor::network_for(const Dataset& data) const {
  auto network = make_network(data, make_policy(config_));
  TrainingState(*network).load(weights_, path_, {});
  network->begin_evaluation();
  return network;
}

std::unique_ptr<TrainingStep> Predictor::network_for(const Dataset& data, Arithmetic arithmetic,
                                                     std::string& no_integers) const {
  std::unique_ptr<TrainingStep> network = network_for(data);
  const bool is_usual = arithmetic == Arithmetic::usual;
  if (arithmetic == Arithmetic::training || (is_usual && !has_integers(network->policy()))) return network;
  try {
    return integers_of(*network, data);
  } catch (const UsageError& none) {
    if (!is_usual) throw;
    no_integers = none.what();
    return network;
  }
}

std::unique_ptr<TrainingStep> Predictor::integers_of(const TrainingStep& network, const Dataset& data) const {
  IntegerLayers layers = fold(network.plan(), network.parameters(), network.backend(), normalization_of(config_.data));
  return make_network(data, std::make_unique<IntegerPolicy>(std::move(layers)));
}

int64_t Predictor::batch_of(const Dataset& data) const { return std::min(config_.data.batch, data.size()); }

std::unique_ptr<Loader> Predictor::loader_of(const Dataset& data) const {
  auto loader = make_loader(data, false, batch_of(data), 0, 1, config_.data.workers, uint64_t(config_.seed));
  loader->start(0);
  return loader;
}

int64_t Predictor::calibrate(const Dataset& data, const std::string& output) const {
  const std::unique_ptr<TrainingStep> network = network_for(data);
  const auto loader = loader_of(data);
  int64_t images = 0;
  for (int64_t b = 0; b < loader->batches_per_epoch(); ++b) {
    const Batch& batch = loader->next();
    if (std::ranges::count(batch.samples, -1) > 0) continue;  // padded, or bad
    network->calibrate(batch);
    images += batch.count;
  }
  REQUIRE_USAGE(images > 0, "name other images", "no whole batch of ", batch_of(data), " images could be read");
  std::map<std::string, std::string> metadata = {{"config", recipe_to_share(config_)}, {"commit", commit}};
  if (knows_names_) add_classes(classes_, metadata);
  add_normalization(normalization_of(config_.data), metadata);
  write_weights(output, TrainingState(*network).save(true), std::move(metadata));
  return images;
}

void Predictor::make_ready(const Dataset& data, Arithmetic arithmetic) {
  std::vector<ImageShape> canvases;
  for (int canvas = 0; canvas < data.canvases(); ++canvas) canvases.push_back(data.canvas_shape(canvas));
  if (ready_ && ready_->batch == batch_of(data) && ready_->canvases == canvases && ready_->arithmetic == arithmetic)
    return;
  ready_.reset();  // its memory is free for the next
  std::string no_integers;
  auto network = network_for(data, arithmetic, no_integers);
  ready_ = Ready{batch_of(data), std::move(canvases), arithmetic, std::move(network), std::move(no_integers)};
}

std::vector<Prediction> Predictor::predict(const Dataset& data, Arithmetic arithmetic) {
  make_ready(data, arithmetic);
  const auto loader = loader_of(data);
  std::vector<Prediction> predictions;
  for (int64_t b = 0; b < loader->batches_per_epoch(); ++b) {
    const Batch& batch = loader->next();
    for (Prediction& of : divide(ready_->network->evaluate(batch, true), batch)) predictions.push_back(std::move(of));
  }
  // After the answers, since it is an error of its own where the training's kernels cannot answer either.
  if (const std::string no_integers = std::exchange(ready_->no_integers, {}); !no_integers.empty())
    spdlog::warn("the training's kernels answer, and not the integers that would be deployed: {}", no_integers);
  std::ranges::stable_sort(predictions, {}, &Prediction::sample);
  return predictions;
}

}  // namespace octet
