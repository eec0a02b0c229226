// What a checkpoint holds of a training: parameters, momentum, running statistics and clips, in torchvision's names and
// layouts.
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
      : parameters_(step.parameters()), backend_(step.backend()), clips_(step.clips()) {}

  // Everything that a resumed run needs: weights as OIHW, plus `momentum.<name>` and `clips`. weights_only: what
  // evaluation needs. The spans live as long as `storage`.
  std::vector<NamedTensor> save(std::vector<std::vector<float>>& storage, bool weights_only) const;
  // Missing or misshapen tensors are Errors that name them.
  void load(const SafetensorsFile&, const std::string& path, bool weights_only);
  // Collective: rank 0's state becomes everyone's.
  void broadcast(Transport&);
  // Collective: an Error names the first parameter or statistic that is not the same on every rank.
  void check_agreement(Transport&) const;
  std::string weights_sha256() const;

 private:
  std::vector<float> values_of(const Tensor&) const;
  std::vector<float> to_oihw(const Tensor&) const;
  void from_oihw(std::span<const float>, const Tensor&);

  Parameters& parameters_;
  Backend& backend_;
  ClipCoordinator* clips_;
};

}  // namespace octet
