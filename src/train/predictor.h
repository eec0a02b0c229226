// A trained network that says what images show. One rank.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/config/config.h"
#include "src/data/loader.h"
#include "src/tasks/task.h"
#include "src/train/training_step.h"
#include "src/weights/safetensors.h"

namespace octet {

// What computes answers: the 8-bit integers that are deployed, or the training's own kernels.
enum class Arithmetic : uint8_t {
  usual,  // integers, or for a network that has none the training's kernels
  integers,
  training,
};

inline constexpr double usual_score = 0.3;  // the least of an object that people are shown

class Predictor {
 public:
  // weights: a safetensors file of the network of config.model. With model.classes: 0 their number is that of the
  // names in the file. UsageError: the command was started on several ranks, or the number is not known or another
  // one than the configuration's.
  Predictor(const Config&, Transport&, const std::string& weights);

  const Config& config() const { return config_; }     // with the number of classes
  const Classes& classes() const { return classes_; }  // of the weights; without names, they are numbers
  bool knows_names() const { return knows_names_; }
  const std::string& weights() const { return path_; }  // their file
  const Task& task() const { return task_; }
  // What the network says of each image that can be read, in the order of the data set. Coordinates are those of the
  // file, and the best objects come first. The network is made at the first call and stays, until one needs another
  // batch: that of the configuration or, if there are fewer images, their number. UsageError: Arithmetic::integers, and
  // there are none.
  std::vector<Prediction> predict(const Dataset&, Arithmetic = Arithmetic::usual);
  // Measures the ranges of activations on the whole batches of the data, with the weights as they are. Writes the
  // weights with these ranges to `output`, a safetensors file. Returns the number of images. UsageError: the policy
  // holds no ranges.
  int64_t calibrate(const Dataset&, const std::string& output) const;

 private:
  std::unique_ptr<TrainingStep> make_network(const Dataset&, std::unique_ptr<Policy>) const;
  std::unique_ptr<TrainingStep> network_for(const Dataset&) const;  // with the weights
  // no_integers: why the training's kernels stand in for integers.
  std::unique_ptr<TrainingStep> network_for(const Dataset&, Arithmetic, std::string& no_integers) const;
  std::unique_ptr<TrainingStep> integers_of(const TrainingStep& network, const Dataset&) const;
  void make_ready(const Dataset&, Arithmetic);
  int64_t batch_of(const Dataset&) const;
  std::unique_ptr<Loader> loader_of(const Dataset&) const;

  Config config_;
  Transport& transport_;
  const std::string path_;
  const SafetensorsFile weights_;
  Classes classes_;
  const Task& task_;
  bool knows_names_;
  struct Ready {
    int64_t batch;
    std::vector<ImageShape> canvases;
    Arithmetic arithmetic;
    std::unique_ptr<TrainingStep> network;
    std::string no_integers;  // why the training's kernels stand in for integers, until that is told
  };
  std::optional<Ready> ready_;  // for the next call of predict()
};

}  // namespace octet
