// octet as a library: trained networks say what images show, recipes are trained, files of weights are read. The
// program `octet` calls the same functions. How to build with it: docs/library.md.
//
// An error is an octet::Failure. No function ends the process, handles signals or prints. Messages go to the default
// logger of spdlog; a process that has set none gets the warnings on standard error. C++17. The binary interface is not
// promised: build again with each version of octet, with the compiler and the C++ library that built it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define OCTET_API __attribute__((visibility("default")))

namespace octet {
namespace library {

// what(): where the mistake is, what is wrong, and how to fix it.
class OCTET_API Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Pixels in memory: 8 bits each of red, green, blue; row after row from the top, without gaps.
struct Image {
  const std::uint8_t* pixels = nullptr;  // (height, width, 3)
  std::int64_t height = 0, width = 0;
};

// What a detector has found. In pixels of the image, from the left and upper edge of the box.
struct Object {
  std::int64_t label = 0;  // in Network::classes()
  std::string name;
  double score = 0;  // 0 .. 1
  double x = 0, y = 0, width = 0, height = 0;
};

// The answer to one image.
struct Prediction {
  // Of a classifier: the most probable class.
  std::int64_t label = -1;  // in Network::classes()
  std::string name;
  float probability = 0;                               // 0 .. 1
  std::vector<float> probabilities = {}, logits = {};  // of all classes
  // Of a detector: the best first.
  std::vector<Object> objects = {};
};

// A trained network. Calls from several threads wait for each other.
class OCTET_API Network {
 public:
  // path: the directory of a run, whose best weights are taken if it kept them, or a safetensors file that octet wrote.
  // overrides: keys of the recipe, "backend.threads=2". score: the least of the objects that a detector names, 0 .. 1.
  static Network load(const std::string& path, const std::vector<std::string>& overrides = {}, double score = 0.3);
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  const std::vector<std::string>& classes() const;  // names by label; numbers if the weights know no names
  bool finds_objects() const;                       // a detector
  std::int64_t input_height() const;                // pixels of the network's input, to which images are resized; of a
  std::int64_t input_width() const;                 // detector those of the first canvas

  // What `octet predict` says, in the order of the images. A network that has 8-bit integers answers with them. As the
  // network is made at the first call and stays for calls with as many images, several calls with one image each are
  // quick. Failure: a file is no image that can be read.
  std::vector<Prediction> predict_files(const std::vector<std::string>& files);
  std::vector<Prediction> predict(const std::vector<Image>& images);

 private:
  struct Inside;
  explicit Network(std::unique_ptr<Inside>);
  std::unique_ptr<Inside> inside_;
};

// A step of a training that is done.
struct Step {
  std::int64_t step = 0, steps = 0;  // its number, from 1; of the whole training
  double loss = 0;                   // NaN: the step was skipped
  double learning_rate = 0;
};

struct TrainOptions {
  std::string run_directory;  // empty: runs/<name of the recipe>, or the next free runs/<name>-2 ...
  bool resume = false;        // continue from the newest checkpoint of the run directory
  // Called after each step. False: the training writes a checkpoint and ends. What it throws does the same, and leaves
  // train() then.
  std::function<bool(const Step&)> on_step = {};
  // Asked before each step and within evaluations, in the thread of train(). True, or what it throws: as on_step.
  std::function<bool()> stop = {};
};

struct Result {
  std::string run_directory;
  bool finished = false;  // false: stopped; `resume` continues
  std::int64_t steps = 0;
  std::vector<std::pair<std::string, double>> figures = {};  // on the test set, the main one first; empty: not finished
};

// Trains in this process, which is one rank. recipe: the path of a YAML file, or YAML itself: a text that has a line
// break or begins with `{`. Relative paths in it begin at the working directory. overrides: keys, "train.lr=0.05".
OCTET_API Result train(const std::string& recipe, const std::vector<std::string>& overrides = {},
                       const TrainOptions& options = {});

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major
};
// The tensors of floats of a safetensors file, or of the weights that Network::load() would take of a run. F16, BF16
// and F64 become F32.
OCTET_API std::vector<Tensor> weights(const std::string& path);

// octet's version: "0.1.0".
OCTET_API const char* version();

}  // namespace library
#ifndef OCTET_LIBRARY_SOURCE  // octet's own sources have other things of these names
using namespace library;
#endif
}  // namespace octet
