// The state of a training that checkpoints hold: parameters, momentum, running statistics and clips, with torchvision's
// names and layouts.
#pragma once
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/train/training_step.h"
#include "src/weights/safetensors.h"
#include "src/weights/weights_file.h"

namespace octet {

class TrainingState {
 public:
  // category_ids: of the data's classes, see WeightsFile.
  explicit TrainingState(TrainingStep& step, std::vector<int64_t> category_ids = {})
      : parameters_(step.parameters()),
        backend_(step.backend()),
        clips_(step.clips()),
        ranges_(step.ranges()),
        category_ids_(std::move(category_ids)) {}

  // Returns the tensors that a resumed run needs: weights as OIHW, `momentum.<name>`, `average.<name>` and `clips`.
  // weights_only: only what evaluation needs, averaged with train.ema. NonFiniteError: a value is not finite, so that
  // load() would refuse the file.
  OwnedTensors save(bool weights_only) const;
  struct Load {
    bool optimizer = false;  // a checkpoint's whole state, of which nothing may be missing
    bool new_head = false;   // layers with rows for each class keep their initial values
  };
  // UsageError: a tensor is missing, or has the wrong shape, or the network lacks it. The message names the first one.
  LoadedWeights load(const SafetensorsFile&, const std::string& path, const Load&);
  // Loads a detector's backbone from weights of the classification network, whose names lack `backbone.body.`. The
  // heads keep their values. Ranges of activations are not loaded: the first step measures those of the detector's
  // images, which have other sizes. UsageError: as load(), or the network has no backbone.
  LoadedWeights load_backbone(const SafetensorsFile&, const std::string& path);
  // Collective: copies rank 0's state to all ranks.
  void broadcast(Transport&);
  // Collective. Error: a parameter or statistic is not the same on all ranks; the message names the first one.
  void check_agreement(Transport&) const;
  std::string weights_sha256() const;

 private:
  std::vector<float> values_of(const Tensor&) const;
  std::vector<float> to_oihw(const Tensor&) const;
  void from_oihw(std::span<const float>, const Tensor&);
  void read(const Param&, const std::string& prefix, const Tensor& into, WeightsFile&);
  void read(const Statistic&, const std::string& prefix, const Tensor& into, WeightsFile&);
  void load_optimizer(WeightsFile&);

  Parameters& parameters_;
  Backend& backend_;
  ClipCoordinator* clips_;
  ActivationRanges* ranges_;
  std::vector<int64_t> category_ids_;
};

}  // namespace octet
