// `octet pack`
#include "src/data/sources/pack.h"

#include <filesystem>
#include <iostream>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/run/directory_lock.h"

namespace octet {

Run pack_command(CLI::App& app) {
  struct Options : Recipe {
    std::string output;
  };
  const auto options = std::make_shared<Options>();
  add_recipe(app, *options);
  app.add_option("--output", options->output,
                 "Directory for train.pack and val.pack; train with data.name: packed and data.root: this directory")
      ->type_name("DIR")
      ->required();
  return [options] {
    return run_on_ranks(*options, [&](const Config& config, Transport& transport) {
      const std::string& output = options->output;
      REQUIRE_USAGE(transport.size() == 1, "start octet pack without mpirun; data.workers sets its threads",
                    "octet pack runs on one rank, not on ", transport.size());
      std::error_code failed;  // DirectoryLock reports a directory that is missing
      std::filesystem::create_directories(output, failed);
      const DirectoryLock lock(output);  // two processes would write into one file
      const PackReport report = pack_image_folder(config, output);
      std::cout << report.images << " images, " << report.skipped << " skipped, " << report.bytes / 1000000 << " MB in "
                << output << "\n";
      return 0;
    });
  };
}

}  // namespace octet
