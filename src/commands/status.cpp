// `octet status`
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/base/terminal.h"
#include "src/commands/command.h"
#include "src/report/run_status.h"

namespace octet {

Run status_command(CLI::App& app) {
  struct Options {
    std::string run;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  app.add_option("run", options->run, "Directory of a run")->type_name("DIR")->required();
  app.add_flag("--json", options->json, "Print one JSON object");
  app.footer(
      "Exit code 0: the run is running, starting or finished; 1: it hangs, was stopped, has diverged, or has "
      "ended without a result.");
  return [options] {
    const RunStatus status = read_run_status(options->run);
    if (options->json)
      std::cout << json_of(status).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    else
      print_folded(text_of(status, terminal_columns(STDOUT_FILENO)));
    using enum RunStatus::State;
    return status.state == finished || status.state == running || status.state == starting ? 0 : 1;
  };
}

}  // namespace octet
