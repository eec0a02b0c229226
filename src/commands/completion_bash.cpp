// `octet help --completion bash`
#include "kernels/base/text.h"
#include "src/commands/reference.h"

namespace octet {
namespace {

constexpr char bash_functions[] = R"(
# The words that begin as the one before the cursor.
_octet_offer() { mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "$@" -- "$current"); }

# Files and folders, or folders alone (-d).
_octet_offer_files() {
  compopt -o filenames 2> /dev/null
  _octet_offer "$1"
}

_octet_offer_setting() {
  if [[ $current == *=* ]]; then
    local choices='' files=''
    _octet_key "${current%%=*}"
    current=${current#*=}
    if [[ -n $files ]]; then _octet_offer_files -f; else _octet_offer -W "$choices"; fi
  else
    compopt -o nospace 2> /dev/null
    _octet_offer -S = -W "$_octet_keys"
  fi
}

_octet() {
  # bash divides words at "=", where they are joined again.
  local words=() word joined=false
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ ${#words[@]} -gt 0 && ( $word == = || $joined == true ) ]]; then words[-1]+=$word; else words+=("$word"); fi
    if [[ $word == = ]]; then joined=true; else joined=false; fi
  done
  COMPREPLY=()
  local command=${words[0]-} current=${words[-1]-} takes='' choices='' place=1 i
  if [[ ${#words[@]} -le 1 ]]; then
    _octet_offer -W "$_octet_commands"
    return
  fi
  for ((i = 1; i + 1 < ${#words[@]}; ++i)); do
    takes=''
    case ${words[i]} in
      -*=*) ;;
      -*) _octet_argument "$command" "${words[i]}" ;;
      *) ((++place)) ;;
    esac
    if [[ -n $takes && i+2 -lt ${#words[@]} ]]; then takes='' choices=''; ((++i)); fi
  done
  if [[ -z $takes && $current == -*=* ]]; then
    _octet_argument "$command" "${current%%=*}"
    current=${current#*=}
  elif [[ -z $takes && $current == -* ]]; then
    _octet_options "$command"
    takes=words
  elif [[ -z $takes ]]; then
    _octet_argument "$command" "$place"
  fi
  case $takes in
    files) _octet_offer_files -f ;;
    folders) _octet_offer_files -d ;;
    setting) _octet_offer_setting ;;
  esac
  if [[ -n $choices ]]; then _octet_offer -W "$choices"; fi
  # What bash takes for a word of its own ends where `current` begins, unless words are not divided at "=".
  if [[ $COMP_WORDBREAKS != *=* ]]; then
    word=${words[-1]}
    COMPREPLY=("${COMPREPLY[@]/#/${word%"$current"}}")
  fi
}
complete -F _octet octet
)";

// What _octet_argument() sets.
std::string bash_argument(const CLI::Option& option) {
  const Argument argument = argument_of(option);
  const char* const takes = argument.file        ? "files"
                            : argument.directory ? "folders"
                            : argument.setting   ? "setting"
                                                 : "words";
  std::string text = say("takes=", takes);
  if (argument.topic) return text + " choices=\"$_octet_topics\"";
  return argument.choices.empty() ? text : text + " choices='" + joined(argument.choices, " ") + "'";
}

std::string bash_arguments(const CLI::App& all) {
  std::string text =
      "# Sets what an option of a command takes, or what stands at a place: nothing for a flag.\n_octet_argument() {\n "
      " case \"$1 $2\" in\n";
  for (const CLI::App* command : all.get_subcommands({})) {
    int number = 0;
    for (const CLI::Option* place : places_of(*command)) {
      const std::string places = repeats(*place) ? "*[0-9]" : std::to_string(++number);
      text += say("    '", command->get_name(), " '", places, ") ", bash_argument(*place), " ;;\n");
    }
    for (const CLI::Option* option : named_options(*command))
      if (takes_value(*option))
        text += say("    '", command->get_name(), " ", option->get_name(), "') ", bash_argument(*option), " ;;\n");
  }
  return text + "  esac\n}\n";
}

std::string bash_options(const CLI::App& all) {
  std::string text = "_octet_options() {\n  case $1 in\n";
  for (const CLI::App* command : all.get_subcommands({})) {
    text += say("    ", command->get_name(), ") choices='--help");
    for (const CLI::Option* option : named_options(*command)) text += " " + option->get_name();
    text += "' ;;\n";
  }
  return text + "  esac\n}\n";
}

std::string bash_keys() {
  std::string text = "# Sets what a key takes.\n_octet_key() {\n  case $1 in\n";
  for (const Key& key : keys()) {
    const std::vector<std::string> choices = choices_of(key);
    if (!choices.empty()) text += say("    ", key.path, ") choices='", joined(choices, " "), "' ;;\n");
    if (takes_text(key)) text += say("    ", key.path, ") files=true ;;\n");
  }
  return text + "  esac\n}\n";
}

}  // namespace

std::string bash_completion(const CLI::App& all) {
  std::vector<std::string> commands, paths;
  for (const CLI::App* command : all.get_subcommands({})) commands.push_back(command->get_name());
  for (const Key& key : keys()) paths.push_back(key.path);
  const std::string names = joined(commands, " ");
  return say("# Completion of octet in bash. Written by `octet help --completion bash`.\n_octet_commands='", names,
             " --help --version'\n_octet_keys='", joined(paths, " "), "'\n_octet_topics=\"", names, " keys ",
             joined(key_sections(), " "), " $_octet_keys\"\n\n", bash_arguments(all), bash_options(all), bash_keys(),
             bash_functions);
}

}  // namespace octet
