// What octet can be asked to do. A command is one file in this folder and one row of the table in main.cpp.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/config/config.h"

namespace octet {

// Runs a command after its options were parsed. Returns the exit code of the process.
using Run = std::function<int()>;
// Declares the options of a command on its parser and returns what runs it.
using DeclareCommand = Run(CLI::App&);

// A YAML file of configuration keys, and keys set on the command line.
struct Recipe {
  std::string file;
  std::vector<std::string> overrides;  // key=value
};
void add_overrides(CLI::App&, std::vector<std::string>& overrides);
void add_recipe(CLI::App&, Recipe&);

// For a command that runs on ranks: joins the job that the launcher started, reads the recipe, checks that every rank
// has the same configuration, and runs `command`. An error names its rank and ends the job.
// A data.batch: auto is decided before, unless the command settles() itself.
int run_on_ranks(const Recipe&, const std::function<int(const Config&, Transport&)>& command, bool settles = false);

// The exit codes of octet with their meanings, one a line.
std::string exit_code_table();

// A trained network, see find_network().
struct NamedNetwork {
  std::string named, weights;
  std::vector<std::string> overrides;  // key=value
};
void add_network(CLI::App&, NamedNetwork&);
// The same as run_on_ranks() for a command that takes a trained network. weights: the file that was found.
int run_with_network(const NamedNetwork&,
                     const std::function<int(const Config&, Transport&, const std::string& weights)>& command);

// UsageError: the file that `option` names cannot be made: its folder does not exist, or what is there is a file of a
// run, or neither a file nor, where the command writes in order, as write_output() does, a pipe or a device such as
// /dev/stdout. For a command that writes at its end. Empty, or `-` for standard output: nothing is asked.
void require_place_for(const std::string& file, const std::string& option, bool in_order = true);
// The file itself, where a user named a link to it.
std::string behind_links(const std::string& file);
// Writes a file that a user named: durably, or where it is a pipe or a device, into it. `-` is standard output; if that
// is a terminal, control characters are shown as \x1b. FileError or std::system_error: it cannot be written.
void write_output(const std::string& file, std::string_view text);
// Prints on standard output; on a terminal, lines are broken between words so that they fit, see folded().
void print_folded(std::string_view text);
// Flushes standard output. FileError: something that was printed is lost.
void require_printed();

// Prints the message of an error on standard error; returns the exit code that belongs to it.
int report_error(const std::exception&, const std::string& where = "");

}  // namespace octet
