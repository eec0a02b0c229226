// `octet inspect`
#include "src/report/inspect/inspect.h"

#include <filesystem>
#include <iostream>

#include "kernels/base/error.h"
#include "src/commands/command.h"

namespace octet {

Run inspect_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string output;
    std::vector<std::string> overrides;
  };
  const auto options = std::make_shared<Options>();
  app.add_option("run", options->runs, "Directory of a run; of several runs for a page that compares them")
      ->type_name("DIR")
      ->required();
  app.add_option("--output", options->output,
                 "The page (default: RUN/inspect.html; of several runs compare.html beside the first)")
      ->type_name("FILE");
  add_overrides(app, options->overrides);
  return [options] {
    require_place_for(options->output, "--output");
    const std::vector<std::string>& runs = options->runs;
    const bool one = runs.size() == 1;
    REQUIRE_USAGE(one || options->overrides.empty(), "leave --set out", "--set changes the recipe of one run, not of ",
                  runs.size());
    const std::string content = one ? inspect_page(runs[0], options->overrides) : comparison_page(runs);
    std::string page = options->output;
    if (page.empty())
      page = one ? runs[0] + "/inspect.html"
                 : ((std::filesystem::path(runs[0]) / "").parent_path().parent_path() / "compare.html").string();
    write_output(page, content);
    std::cout << page << "\n";
    return 0;
  };
}

}  // namespace octet
