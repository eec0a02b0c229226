#include "src/commands/command.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>
#include <thread>

#include "comm/agreement.h"
#include "kernels/backend.h"
#include "kernels/base/durable_file.h"
#include "kernels/base/exit_codes.h"
#include "kernels/base/host_name.h"
#include "kernels/base/terminal.h"
#include "kernels/base/text.h"
#include "src/config/log.h"
#include "src/config/message.h"
#include "src/run/directory_lock.h"
#include "src/run/resume_point.h"
#include "src/run/run_directory.h"
#include "src/train/settle.h"
#include "src/train/training_step.h"
#include "src/version.h"
#include "src/weights/trained_network.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

int exit_code(const std::exception& error) {
  if (dynamic_cast<const InUseError*>(&error)) return exit_in_use;
  if (dynamic_cast<const UsageError*>(&error)) return exit_usage;
  if (dynamic_cast<const FileError*>(&error)) return exit_disk;
  if (const auto* const of_path = dynamic_cast<const fs::filesystem_error*>(&error))
    return is_of_disk(of_path->code()) ? exit_disk : exit_usage;
  if (lacks_threads(error)) return exit_failure;
  if (dynamic_cast<const std::system_error*>(&error)) return exit_disk;  // a stream's, or {fmt}'s of standard output
  if (dynamic_cast<const LostPeer*>(&error)) return exit_lost_peer;
  if (dynamic_cast<const NonFiniteError*>(&error)) return exit_nonfinite;
  if (dynamic_cast<const NoCheckpointError*>(&error)) return exit_no_checkpoint;
  return exit_failure;
}

// A pipe or a device such as /dev/stdout: what takes bytes one after the other, and must stay where it is.
bool is_stream(const fs::file_status& of) { return fs::is_fifo(of) || fs::is_character_file(of); }

}  // namespace

void add_overrides(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("--set", overrides, "Override one key, for example --set train.lr=0.05 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_recipe(CLI::App& app, Recipe& recipe) {
  app.add_option("config", recipe.file, "YAML file, for example configs/shapes_resnet20_unified_int8.yaml")
      ->type_name("FILE")
      ->required();
  add_overrides(app, recipe.overrides);
}

std::string exit_code_table() {
  std::string text = "Exit codes; (retry): starting again with --resume can help.";
  for (const ExitMeaning& of : exit_meanings())
    text += fmt::format("\n{:4} {}{}", int(of.code), of.meaning, of.retry ? " (retry)" : "");
  return text;
}

void add_network(CLI::App& app, NamedNetwork& network) {
  app.add_option("network", network.named,
                 "Directory of a run, a .safetensors file that octet wrote, or a recipe with --weights")
      ->type_name("PATH")
      ->required();
  add_overrides(app, network.overrides);
  app.add_option("--weights", network.weights,
                 "A safetensors file; without it a run's best.safetensors, else its weights.safetensors")
      ->type_name("FILE");
}

void require_place_for(const std::string& file, const std::string& option, bool in_order) {
  if (file.empty() || file == "-") return;
  std::error_code unknown;
  const fs::path folder = fs::absolute(file, unknown).parent_path();
  REQUIRE_USAGE(fs::is_directory(folder, unknown), "make the folder, or name another file", option, " ", file,
                ": there is no folder ", folder.string());
  const fs::file_status found = fs::status(file, unknown);
  REQUIRE_USAGE(!fs::is_directory(found), "name a file in it", option, " ", file, " is a folder");
  REQUIRE_USAGE(fs::exists(found) || !fs::is_symlink(file, unknown), "remove the link, or name another file", option,
                " ", file, " is a link that leads to no file");
  REQUIRE_USAGE(!fs::exists(found) || !is_of_run(fs::canonical(file, unknown).string()), "name another file", option,
                " ", file, " is a file of a run, which a training wrote");
  REQUIRE_USAGE(!fs::exists(found) || fs::is_regular_file(found) || (in_order && is_stream(found)), "name a file",
                option, " ", file, " is ",
                in_order ? "neither a file, nor a pipe or a terminal" : "there, and is not a regular file");
  const fs::file_status beside = fs::symlink_status(file + ".tmp", unknown);
  REQUIRE_USAGE(!fs::exists(beside) || fs::is_regular_file(beside), "move it away", option, " ", file,
                ": octet writes ", file, ".tmp first, and something else is there");
}

namespace {

void print_shown(std::string_view text) {
  if (isatty(STDOUT_FILENO) == 0) return fmt::print("{}", text);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    fmt::print("{}\n", printable(line));
  }
}

}  // namespace

std::string behind_links(const std::string& file) { return fs::is_symlink(file) ? fs::canonical(file).string() : file; }

void write_output(const std::string& file, std::string_view text) {
  if (file == "-") return print_shown(text);
  std::error_code unknown;
  if (!is_stream(fs::status(file, unknown))) return write_durably(behind_links(file), text);
  std::ofstream stream(file, std::ios::binary);
  stream << text << std::flush;
  if (!stream)
    throw FileError(__FILE__, __LINE__, say("'", file, "' cannot be written"),
                    "check that somebody reads it, and its permissions");
}

void print_folded(std::string_view text) { std::cout << folded(text, terminal_columns(STDOUT_FILENO)); }

int report_error(const std::exception& error, const std::string& where) {
  const std::string message = say("octet: error", where, ": ", message_of(error));
  std::fprintf(stderr, "%s\n", folded(message, terminal_columns(STDERR_FILENO)).c_str());
  std::fflush(nullptr);
  return exit_code(error);
}

void require_printed() {
  const bool printed = std::cout.flush() && std::fflush(stdout) == 0;
  if (!printed)
    throw FileError(__FILE__, __LINE__, "standard output cannot be written",
                    "check the free space and the quota of the file that it leads to");
}

namespace {

int run_configured(const std::function<Config()>& read, const std::function<int(const Config&, Transport&)>& command,
                   bool settles = false) {
  const std::unique_ptr<Transport> transport = make_transport(nullptr, nullptr);
  const bool alone = transport->size() == 1;
  setup_log(transport->rank());
  try {
    require_same_build(*transport, say(version, " (commit ", commit, ", build ", build_id().substr(0, 16), ")"));
    Config config = read();
    require_same_on_ranks(config, *transport);
    if (!settles) config = with_batch(config, *transport);
    if (!config.backend.isa.empty()) isa_from_name(config.backend.isa);  // also where the device is a GPU
    const int code = command(config, *transport);
    transport->barrier();  // no rank leaves with a non-zero code while others still work
    return code;
  } catch (const std::exception& error) {
    // Most mistakes stop every rank alike. Rank 0 reports first, and its abort silences the others: the launcher sends
    // them SIGTERM, which training takes as a request to stop, and SIGKILL a second later.
    if (transport->rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    const int code = report_error(error, alone ? "" : say(" on rank ", transport->rank(), " on ", host_name()));
    if (!alone) transport->abort(code);
    return code;
  }
}

}  // namespace

int run_on_ranks(const Recipe& recipe, const std::function<int(const Config&, Transport&)>& command, bool settles) {
  return run_configured([&] { return load_config(recipe.file, recipe.overrides); }, command, settles);
}

int run_with_network(const NamedNetwork& network,
                     const std::function<int(const Config&, Transport&, const std::string& weights)>& command) {
  std::string weights;
  const auto read = [&] {
    TrainedNetwork found = find_network(network.named, network.weights, network.overrides);
    weights = std::move(found.weights);
    return std::move(found.config);
  };
  return run_configured(
      read, [&](const Config& config, Transport& transport) { return command(config, transport, weights); });
}

}  // namespace octet
