// Times a data set's loader alone: images per second of reading, decoding and augmenting.
// usage: bench_loader CONFIG [key=value...]
#include <chrono>
#include <cstdio>
#include <vector>

#include "kernels/base/error.h"
#include "src/data/loader.h"

int main(int argc, char** argv) {
  using namespace octet;
  try {
    REQUIRE_USAGE(argc > 1, "bench_loader configs/tiny_imagenet_resnet18_unified_int8.yaml data.root=DIR",
                  "no configuration");
    const Config config = load_config(argv[1], std::vector<std::string>(argv + 2, argv + argc));
    const Datasets sets = open_datasets(config);
    const auto loader =
        make_loader(*sets.train, true, config.data.batch, 0, 1, config.data.workers, 1,
                    {.balanced = config.data.balanced, .mixup = config.augment.mixup, .cutmix = config.augment.cutmix});
    loader->start(0);
    const auto now = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    for (int i = 0; i < 8; ++i) loader->next();  // until files are in the page cache and prefetching has begun
    const double start = now();
    int64_t images = 0;
    while (now() - start < 8) images += loader->next().count;
    std::printf("%s: %.0f images per second with %ld workers\n", config.data.name.c_str(),
                double(images) / (now() - start), long(config.data.workers));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_loader: %s\n", error.what());
    return 1;
  }
}
