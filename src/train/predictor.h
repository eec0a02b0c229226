// A trained network that says what images show. One rank.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/config/config.h"
#include "src/data/loader.h"
#include "src/train/safetensors.h"
#include "src/train/training_step.h"

namespace octet {

struct Prediction {
  int64_t image = 0;                         // index in the data
  std::vector<Detection> objects;            // of a detector, the best first; coordinates are those of the file
  std::vector<float> logits, probabilities;  // of a classifier, by label
};

class Predictor {
 public:
  // weights: a safetensors file of the network of config.model. With model.classes: 0 their number is that of the
  // names in the file. UsageError: the command was started on several ranks, or the number is not known or another
  // one than the configuration's.
  Predictor(const Config&, Transport&, const std::string& weights);

  const Config& config() const { return config_; }     // with the number of classes
  const Classes& classes() const { return classes_; }  // of the weights; without names, they are numbers
  bool knows_names() const { return knows_names_; }
  bool detects() const { return detects_; }
  // What the network says of each image that can be read, in the order of the data set. The truth of its samples names
  // the images.
  std::vector<Prediction> predict(const Dataset&) const;
  // Measures the ranges of activations on the whole batches of the data, with the weights as they are. Writes the
  // weights with these ranges to `output`, a safetensors file. Returns the number of images. UsageError: the policy
  // holds no ranges.
  int64_t calibrate(const Dataset&, const std::string& output) const;

 private:
  std::unique_ptr<TrainingStep> network_for(const Dataset&) const;
  int64_t batch_of(const Dataset&) const;
  std::unique_ptr<Loader> loader_of(const Dataset&) const;

  Config config_;
  Transport& transport_;
  const std::string path_;
  const SafetensorsFile weights_;
  Classes classes_;
  bool detects_, knows_names_;
};

}  // namespace octet
