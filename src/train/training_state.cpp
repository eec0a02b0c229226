#include "src/train/training_state.h"

#include <algorithm>
#include <cmath>

#include "comm/agreement.h"
#include "src/weights/digest.h"

namespace octet {
namespace {

// Calls f(index in OHWI, index in OIHW) for each element. OHWI is the plan's layout of a weight, OIHW torchvision's.
template <class F>
void for_each_place(const Shape& s, F f) {
  for (int64_t o = 0; o < s.n; ++o)
    for (int64_t y = 0; y < s.h; ++y)
      for (int64_t x = 0; x < s.w; ++x)
        for (int64_t i = 0; i < s.c; ++i)
          f(size_t(((o * s.h + y) * s.w + x) * s.c + i), size_t(((o * s.c + i) * s.h + y) * s.w + x));
}

std::vector<int64_t> torch_shape(const Param& param) {
  const Shape& s = param.shape;
  if (!is_weight(param.kind)) return {s.c};
  if (param.kind == ParamKind::linear_weight) return {s.n, s.h * s.w * s.c};
  return {s.n, s.c, s.h, s.w};
}

std::vector<std::string> names_of(const std::vector<Param>& params) {
  std::vector<std::string> names;
  for (const Param& param : params) names.push_back(param.name);
  return names;
}

}  // namespace

std::vector<float> TrainingState::values_of(const Tensor& tensor) const {
  std::vector<float> values(size_t(tensor.elements()));
  backend_.to_host(values.data(), tensor.data, tensor.bytes());
  return values;
}

std::vector<float> TrainingState::to_oihw(const Tensor& tensor) const {
  const std::vector<float> in = values_of(tensor);
  std::vector<float> out(in.size());
  for_each_place(tensor.shape, [&](size_t ohwi, size_t oihw) { out[oihw] = in[ohwi]; });
  return out;
}

void TrainingState::from_oihw(std::span<const float> in, const Tensor& tensor) {
  std::vector<float> out(in.size());
  for_each_place(tensor.shape, [&](size_t ohwi, size_t oihw) { out[ohwi] = in[oihw]; });
  backend_.to_device(tensor.data, out.data(), tensor.bytes());
}

OwnedTensors TrainingState::save(bool weights_only) const {
  OwnedTensors saved;
  const auto add = [&](std::string name, std::vector<int64_t> shape, std::vector<float> values) {
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
      throw NonFiniteError(say("the weights are no longer finite: first `", name, "`; they are not written"));
    saved.add(std::move(name), std::move(shape), std::move(values));
  };
  // Files of weights hold the averages, if there are any; checkpoints hold both.
  const auto chosen = [&](const Tensor& tensor) { return weights_only ? parameters_.average(tensor) : tensor; };
  for (const Param& param : parameters_.all()) add(param.name, torch_shape(param), to_oihw(chosen(param.master)));
  for (const Statistic& statistic : parameters_.statistics()) {
    if (weights_only && statistic.training_only) continue;
    add(statistic.name, {statistic.tensor.shape.c},
        values_of(statistic.unread ? statistic.tensor : chosen(statistic.tensor)));
  }
  if (weights_only) return saved;
  for (const Param& param : parameters_.trained())
    add("momentum." + param.name, torch_shape(param), to_oihw(param.velocity));
  for (const Param& param : parameters_.trained())
    if (param.square) add(square_prefix + param.name, torch_shape(param), to_oihw(param.square));
  if (parameters_.averages()) {
    for (const Param& param : parameters_.trained())
      add(average_prefix + param.name, torch_shape(param), to_oihw(parameters_.average(param.master)));
    for (const Statistic& statistic : parameters_.statistics())
      add(average_prefix + statistic.name, {statistic.tensor.shape.c},
          values_of(parameters_.average(statistic.tensor)));
  }
  if (!clips_) return saved;
  const ClipCoordinator::State state = clips_->state();
  std::vector<float> table;
  for (const ClipChoice& choice : state.choices)
    table.insert(table.end(), {choice.clip, choice.cosine_distance, choice.lr_scale, choice.saturated, choice.nonzero});
  table.push_back(state.forced ? 1.0f : 0.0f);
  const int64_t count = int64_t(table.size());
  add("clips", {count}, std::move(table));
  return saved;
}

// prefix: of the tensor's name in front of the parameter's, for example "momentum.".
void TrainingState::read(const Param& param, const std::string& prefix, const Tensor& into, WeightsFile& from) {
  from_oihw(from.read(prefix + param.name, torch_shape(param)), into);
}

void TrainingState::read(const Statistic& statistic, const std::string& prefix, const Tensor& into, WeightsFile& from) {
  const std::vector<float> values = from.read(prefix + statistic.name, {statistic.tensor.shape.c});
  REQUIRE_USAGE(!statistic.name.ends_with(".running_var") ||
                    std::ranges::none_of(values, [](float variance) { return variance < 0; }),
                "use an undamaged copy of the file", "`", statistic.name, "` holds a negative variance");
  REQUIRE_USAGE(!statistic.range || values.front() >= 0, "use an undamaged copy of the file", "the range `",
                statistic.name, "` is negative: ", values.front());
  backend_.to_device(into.data, values.data(), into.bytes());
}

LoadedWeights TrainingState::load(const SafetensorsFile& file, const std::string& path, const Load& what) {
  WeightsFile weights(file, path, WeightsFile::Of::same_network, category_ids_);
  weights.look_for(names_of(parameters_.all()));
  // A file without the auxiliary head of InceptionV3 is whole for evaluation, which does not read it.
  const auto leaves = [&](const std::string& name) {
    return !what.optimizer && name.starts_with("AuxLogits.") && !weights.contains(name);
  };
  // Who does not go on with a training wants the weights that the training evaluated.
  const auto kind_of = [&](const std::string& name) {
    return !what.optimizer && weights.contains(average_prefix + name) ? std::string(average_prefix) : std::string();
  };
  for (const Param& param : parameters_.all())
    (what.new_head && param.of_classes) || leaves(param.name) ? weights.leave(param.name)
                                                              : read(param, kind_of(param.name), param.master, weights);
  parameters_.masters_changed();
  for (const Statistic& statistic : parameters_.statistics()) {
    if (!what.optimizer && statistic.training_only) continue;
    const bool may_miss = statistic.range && (!what.optimizer || statistic.unread);
    const std::string kind = statistic.unread ? "" : kind_of(statistic.name);
    if (may_miss && !weights.contains(statistic.name))
      weights.miss(statistic.name);
    else
      leaves(statistic.name) ? weights.leave(statistic.name) : read(statistic, kind, statistic.tensor, weights);
  }
  if (ranges_) ranges_->read();
  what.optimizer ? load_optimizer(weights) : parameters_.start_averages();
  return weights.finish();
}

void TrainingState::load_optimizer(WeightsFile& from) {
  for (const Param& param : parameters_.trained()) read(param, "momentum.", param.velocity, from);
  for (const Param& param : parameters_.trained())
    if (param.square) read(param, square_prefix, param.square, from);
  if (parameters_.averages()) {
    for (const Param& param : parameters_.trained())
      read(param, average_prefix, parameters_.average(param.master), from);
    for (const Statistic& statistic : parameters_.statistics())
      if (!statistic.unread || from.contains(average_prefix + statistic.name))
        read(statistic, average_prefix, parameters_.average(statistic.tensor), from);
  }
  if (!clips_) return;
  const auto table = from.read("clips", {int64_t(clips_->layers()) * 5 + 1});
  ClipCoordinator::State state;
  for (size_t i = 0; i + 5 < table.size(); i += 5)
    state.choices.push_back({table[i], table[i + 1], table[i + 2], table[i + 3], table[i + 4]});
  state.forced = table.back() != 0;
  clips_->restore(state);
}

LoadedWeights TrainingState::load_backbone(const SafetensorsFile& file, const std::string& path) {
  WeightsFile weights(file, path, WeightsFile::Of::backbone);
  weights.look_for(names_of(parameters_.all()));
  bool loads = false;
  for (const Param& param : parameters_.all()) {
    const bool of_backbone = !name_in_backbone(param.name).empty();
    loads |= of_backbone;
    of_backbone ? read(param, "", param.master, weights) : weights.leave(param.name);
  }
  REQUIRE_USAGE(loads, "set model.initial_weights instead", "the network has no backbone for ", path);
  parameters_.masters_changed();
  for (const Statistic& statistic : parameters_.statistics()) {
    if (statistic.range || statistic.training_only) continue;
    name_in_backbone(statistic.name).empty() ? weights.leave(statistic.name)
                                             : read(statistic, "", statistic.tensor, weights);
  }
  parameters_.start_averages();
  return weights.finish();
}

void TrainingState::broadcast(Transport& transport) {
  const auto send = [&](const Tensor& tensor) {
    std::vector<float> values = values_of(tensor);
    transport.broadcast(std::as_writable_bytes(std::span(values)), 0);
    backend_.to_device(tensor.data, values.data(), tensor.bytes());
  };
  for (Param& param : parameters_.all()) send(param.master);
  for (Param& param : parameters_.trained()) {
    send(param.velocity);
    if (param.square) send(param.square);
  }
  if (parameters_.averages()) {
    for (Param& param : parameters_.trained()) send(parameters_.average(param.master));
    for (Statistic& statistic : parameters_.statistics()) send(parameters_.average(statistic.tensor));
  }
  parameters_.masters_changed();
  for (Statistic& statistic : parameters_.statistics()) send(statistic.tensor);
  if (ranges_) ranges_->read();
  if (!clips_) return;
  ClipCoordinator::State state = clips_->state();
  transport.broadcast(std::as_writable_bytes(std::span(state.choices)), 0);
  transport.broadcast(std::as_writable_bytes(std::span(&state.forced, 1)), 0);
  clips_->restore(state);
}

void TrainingState::check_agreement(Transport& transport) const {
  std::vector<std::string> names;
  std::vector<uint64_t> hashes;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    names.push_back(name);
    hashes.push_back(xxh3(values_of(tensor)));
  };
  for (const Param& param : parameters_.all()) add(param.name, param.master);
  for (const Statistic& statistic : parameters_.statistics()) add(statistic.name, statistic.tensor);
  octet::check_agreement(transport, names, hashes);
}

std::string TrainingState::weights_sha256() const { return octet::weights_sha256(save(true)); }

}  // namespace octet
