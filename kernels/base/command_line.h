// The command line of this process.
#pragma once
#include <string>

namespace octet {

// The words as a shell takes them: "octet train 'my recipe.yaml' --set seed=2". Empty where /proc is not to be read.
std::string command_line();
// One word for a shell, in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace octet
