// `octet inspect`
#include "src/report/inspect/inspect.h"

#include <iostream>

#include "src/commands/command.h"

namespace octet {

Run inspect_command(CLI::App& app) {
  struct Options {
    std::string run, output;
    std::vector<std::string> overrides;
  };
  const auto options = std::make_shared<Options>();
  app.add_option("run", options->run, "Directory of the run")->type_name("DIR")->required();
  app.add_option("--output", options->output, "The page (default: RUN/inspect.html)")->type_name("FILE");
  add_overrides(app, options->overrides);
  return [options] {
    require_place_for(options->output, "--output");
    const std::string page = options->output.empty() ? options->run + "/inspect.html" : options->output;
    write_output(page, inspect_page(options->run, options->overrides));
    std::cout << page << "\n";
    return 0;
  };
}

}  // namespace octet
