// What the manual page and the completion of shells say, from the tables of commands, options and keys that `octet
// help` prints too.
#pragma once
#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "src/config/keys.h"

namespace octet {

// The values of keys whose names are in tables of other folders.
std::map<std::string, std::vector<std::string>> known_names();
// The words that a key takes; empty: any number or text.
std::vector<std::string> choices_of(const Key&);
bool takes_text(const Key&);
// "train", "policy.bits": the sections, in the order of the keys.
std::vector<std::string> key_sections();

std::vector<const CLI::Option*> named_options(const CLI::App&);  // --run, without --help
std::vector<const CLI::Option*> places_of(const CLI::App&);      // what has no name, in its order
bool takes_value(const CLI::Option&);
bool repeats(const CLI::Option&);
// What an option takes, as the name of its type says: FILE, PATH (a file or a folder), DIR, KEY=VALUE, TOPIC, {words}.
struct Argument {
  bool file = false, directory = false;
  bool setting = false;                   // KEY=VALUE
  bool topic = false;                     // of `octet help`
  std::vector<std::string> choices = {};  // words
};
Argument argument_of(const CLI::Option&);

// The manual page octet(1), in roff.
std::string man_page(const CLI::App& all);
// A script that completes command lines in bash or zsh.
std::string bash_completion(const CLI::App& all);
std::string zsh_completion(const CLI::App& all);

}  // namespace octet
