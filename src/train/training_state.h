// The state of a training that checkpoints hold: parameters, momentum, running statistics and clips, with torchvision's
// names and layouts.
#pragma once
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/train/safetensors.h"
#include "src/train/training_step.h"

namespace octet {

class TrainingState {
 public:
  explicit TrainingState(TrainingStep& step)
      : parameters_(step.parameters()), backend_(step.backend()), clips_(step.clips()), ranges_(step.ranges()) {}

  // Returns the tensors that a resumed run needs: weights as OIHW, `momentum.<name>` and `clips`. weights_only: only
  // what evaluation needs. The spans are valid as long as `storage`.
  std::vector<NamedTensor> save(std::vector<std::vector<float>>& storage, bool weights_only) const;
  // Error: a tensor is missing or has the wrong shape. The message names the tensor.
  void load(const SafetensorsFile&, const std::string& path, bool weights_only);
  // Collective: copies rank 0's state to all ranks.
  void broadcast(Transport&);
  // Collective. Error: a parameter or statistic is not the same on all ranks; the message names the first one.
  void check_agreement(Transport&) const;
  std::string weights_sha256() const;

 private:
  std::vector<float> values_of(const Tensor&) const;
  std::vector<float> to_oihw(const Tensor&) const;
  void from_oihw(std::span<const float>, const Tensor&);

  Parameters& parameters_;
  Backend& backend_;
  ClipCoordinator* clips_;
  ActivationRanges* ranges_;
};

}  // namespace octet
