// What tests/integration/test_library.py asks of the library. Prints a line for each answer.
// usage: answers RECIPE RUN IMAGE...    RECIPE: of 16 steps in 2 epochs; RUN: of a classifier, which is there
#include <octet/octet.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace {

// A PPM file of 8 bits: "P6\nWIDTH HEIGHT\n255\n" and the pixels.
struct Picture {
  std::string bytes;
  std::int64_t height = 0, width = 0;
  explicit Picture(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    std::string kind, most;
    stream >> kind >> width >> height >> most;
    stream.get();
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  octet::Image image() const { return {reinterpret_cast<const std::uint8_t*>(bytes.data()), height, width}; }
};

void print(const char* of, const octet::Prediction& answer) {
  std::printf("%s %s %.5f %zu\n", of, answer.name.c_str(), answer.probability, answer.probabilities.size());
}

template <class Call>
void print_failure(const char* of, const Call& call) {
  try {
    call();
    std::printf("%s none\n", of);
  } catch (const octet::Failure& failure) {
    std::string text = failure.what();
    for (char& c : text)
      if (c == '\n') c = ' ';
    std::printf("%s %s\n", of, text.c_str());
  }
}

void train(const std::string& recipe) {
  octet::TrainOptions options;
  options.run_directory = "stopped";
  options.on_step = [](const octet::Step& at) { return at.step < 3; };
  octet::Result result = octet::train(recipe, {}, options);
  std::printf("stopped %d %lld\n", int(result.finished), (long long)result.steps);
  options.resume = true;
  options.on_step = [](const octet::Step& at) {
    if (at.step == 5) throw 5;
    return true;
  };
  try {
    octet::train(recipe, {}, options);
  } catch (int step) {
    std::printf("thrown %d\n", step);
  }
  options.on_step = [](const octet::Step& at) {
    std::printf("step %lld %lld %.6f %.6f\n", (long long)at.step, (long long)at.steps, at.loss, at.learning_rate);
    return true;
  };
  result = octet::train(recipe, {}, options);
  std::printf("finished %d %lld %s %.6f\n", int(result.finished), (long long)result.steps,
              result.figures.at(0).first.c_str(), result.figures.at(0).second);
}

void fail(const std::string& recipe, octet::Network& network) {
  print_failure("no_recipe", [] { octet::train("absent.yaml"); });
  print_failure("wrong_key", [&] { octet::train(recipe, {"train.lrr=1"}); });
  print_failure("wrong_text", [] { octet::train("model: {nam: resnet21}\n"); });
  print_failure("diverged", [] {
    octet::train(
        "{data: {samples: 64, batch: 32, workers: 1}, policy: {name: fp32}, "
        "train: {lr: 1e6, epochs: 8}, backend: {threads: 1}}");
  });
  print_failure("no_run", [] { octet::Network::load("nowhere"); });
  print_failure("no_image", [&] { network.predict_files({"mine.yaml"}); });
  print_failure("no_pixels", [&] { network.predict(std::vector<octet::Image>(1)); });
}

}  // namespace

int main(int, char** argv) {
  octet::Network network = octet::Network::load(argv[2]);
  std::vector<std::string> files;
  std::vector<Picture> pictures;
  std::vector<octet::Image> images;
  for (char** argument = argv + 3; *argument != nullptr; ++argument) files.emplace_back(*argument);
  for (const std::string& file : files) pictures.emplace_back(file);
  for (const Picture& picture : pictures) images.push_back(picture.image());
  for (const octet::Prediction& answer : network.predict_files(files)) print("file", answer);
  for (const octet::Prediction& answer : network.predict(images)) print("pixels", answer);
  for (const octet::Image& image : images) print("alone", network.predict({image}).at(0));
  std::printf("none %zu\n", network.predict_files({}).size());
  std::printf("input %lld %lld %zu\n", (long long)network.input_height(), (long long)network.input_width(),
              network.classes().size());
  train(argv[1]);
  fail(argv[1], network);
}
