// How far the gradients of a configuration are from fp32's, at the same weights and on the same batches: per weight
// tensor the size |g| / |f|, the cosine <g, f> / (|g| |f|) and the error |g - f| / |f|, over all batches together.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/train/trainer.h"

namespace octet {
namespace {

struct Sums {
  double gg = 0, gf = 0, ff = 0;
  double size() const { return std::sqrt(gg / ff); }
  double cosine() const { return gf / std::sqrt(gg * ff); }
  double error() const { return std::sqrt((gg - 2 * gf + ff) / ff); }
  void add(const Tensor& gradient, const Tensor& fp32) {
    for (int64_t i = 0; i < fp32.elements(); ++i) {
      const double g = gradient.f32()[i], f = fp32.f32()[i];
      gg += g * g, gf += g * f, ff += f * f;
    }
  }
};

struct Variant {
  std::string name;
  std::unique_ptr<Trainer> trainer;
  double loss = 0;
  std::vector<Sums> layers;
  Sums all;
};

std::vector<std::string> parts(const std::string& joined) {
  std::vector<std::string> result;
  std::istringstream stream(joined);
  for (std::string part; std::getline(stream, part, ',');) result.push_back(part);
  return result;
}

void run(const std::string& file, const std::string& weights, const std::string& root, int batches,
         const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"policy.name=fp32", ""};
  settings.insert(settings.end(), more.begin(), more.end());

  const std::unique_ptr<Transport> transport = make_self_transport();
  std::vector<Variant> variants;
  for (const std::string& setting : settings) {
    std::vector<std::string> overrides = parts(setting);
    // Nothing may change: neither the weights nor, by decay, what is compared.
    overrides.insert(overrides.end(), {"model.initial_weights=" + weights, "data.root=" + root, "train.lr=0"});
    const Config config = load_config(file, overrides);
    Variant variant{setting.empty() ? "as configured" : setting, {}, 0, {}, {}};
    variant.trainer = std::make_unique<Trainer>(config, *transport);
    variant.trainer->load_initial_weights();
    variant.trainer->start(0);
    variants.push_back(std::move(variant));
  }

  const auto& reference = variants[0].trainer->training_step().parameters().all();
  for (Variant& variant : variants) variant.layers.resize(reference.size());
  for (int batch = 0; batch < batches; ++batch)
    for (Variant& variant : variants) {
      variant.loss += variant.trainer->step(batch, false).figures.front().value / batches;
      for (size_t p = 0; p < reference.size(); ++p) {
        if (!is_weight(reference[p].kind)) continue;
        const Tensor& gradient = variant.trainer->training_step().parameters().all()[p].gradient;
        variant.layers[p].add(gradient, reference[p].gradient);
        variant.all.add(gradient, reference[p].gradient);
      }
    }

  const auto print = [](const std::string& name, const Sums& sums) {
    std::printf("  %-32s %8.4f %8.4f %8.4f\n", name.c_str(), sums.size(), sums.cosine(), sums.error());
  };
  for (const Variant& variant : variants) {
    if (&variant == &variants[0]) continue;
    std::printf("\n%s: loss %.5f (fp32 %.5f)\n  %-32s %8s %8s %8s\n", variant.name.c_str(), variant.loss,
                variants[0].loss, "", "size", "cosine", "error");
    for (size_t p = 0; p < reference.size(); ++p)
      if (is_weight(reference[p].kind)) print(reference[p].name, variant.layers[p]);
    print("all weights", variant.all);
  }
}

}  // namespace
}  // namespace octet

int main(int argc, char** argv) {
  CLI::App app("Gradients of a configuration against fp32's, at the same weights and on the same batches");
  std::string file, weights, root;
  int batches = 0;
  std::vector<std::string> variants;
  app.add_option("CONFIG", file, "the configuration")->required();
  app.add_option("WEIGHTS", weights, "weights.safetensors of a run")->required();
  app.add_option("DATA_ROOT", root, "directory of the data")->required();
  app.add_option("BATCHES", batches, "training batches to add up")->required()->check(CLI::Range(1, 100000));
  app.add_option("VARIANTS", variants, "KEY=VALUE[,KEY=VALUE...]: one more variant each");
  CLI11_PARSE(app, argc, argv);
  try {
    octet::run(file, weights, root, batches, variants);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
