// `octet help --man`: octet(1) in the macros of man(7).
#include <algorithm>

#include "kernels/base/exit_codes.h"
#include "kernels/base/text.h"
#include "src/commands/command.h"
#include "src/commands/reference.h"
#include "src/version.h"

namespace octet {
namespace {

struct ManEntry {
  const char *what, *meaning;
};

constexpr ManEntry man_files[] = {
    {"PREFIX/share/octet/configs/",
     "Recipes. PREFIX is the folder that octet was installed to, such as /usr or /usr/local."},
    {"PREFIX/share/octet/launch/",
     "`mpirun.sh` starts ranks under Open MPI and resumes what failed, `slurm.sbatch` is a job of Slurm, `get-data.sh` "
     "downloads data sets, `convert-weights.py` converts weights of PyTorch."},
    {"runs/NAME/", "A run, unless --run names another folder."},
    {"runs/NAME/config.yaml", "Its recipe with every key."},
    {"runs/NAME/metrics.jsonl", "Its figures by step."},
    {"runs/NAME/checkpoints/", "Where it can be resumed."},
    {"runs/NAME/weights.safetensors, runs/NAME/best.safetensors",
     "The weights after the last step, and those of the best evaluation."},
    {"runs/NAME/result.json", "The figures of the finished run."},
};

constexpr ManEntry man_examples[] = {
    {"octet new photographs --output mine.yaml", "Write a recipe for a folder with a folder of images for each class."},
    {"octet plan mine.yaml", "Print the layers and the memory."},
    {"octet train mine.yaml --run runs/first --set train.epochs=30",
     "Train; with --resume it goes on where it stopped."},
    {"mpirun -n 2 octet train mine.yaml --run runs/second", "Train on two ranks."},
    {"octet eval runs/first", "Evaluate the best weights on the test set."},
    {"octet predict runs/first photograph.jpg", "Say what an image shows."},
    {"octet inspect runs/first", "Write a page with the curves of the run."},
    {"octet export runs/first --for onnxruntime --output mine.onnx", "Write the trained network for ONNX Runtime."},
};

// Text as roff prints it, in one line. Words in back-ticks become bold.
std::string roff(const std::string& text) {
  std::string escaped;
  bool bold = false;
  for (const char c : text) {
    switch (c) {
      case '\\':
        escaped += "\\e";
        break;
      case '-':
        escaped += "\\-";
        break;
      case '\'':
        escaped += "\\(aq";
        break;
      case '"':
        escaped += "\\(dq";
        break;
      case '^':
        escaped += "\\(ha";
        break;
      case '~':
        escaped += "\\(ti";
        break;
      case '`':
        escaped += (bold = !bold) ? "\\fB" : "\\fR";
        break;
      case '\n':
        escaped += ' ';
        break;
      default:
        escaped += c;
    }
  }
  return (escaped.starts_with('.') ? "\\&" : "") + escaped;
}

std::string in_bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string in_italics(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string heading(const std::string& text) { return ".SH " + text + "\n"; }
std::string subheading(const std::string& text) { return ".SS \"" + roff(text) + "\"\n"; }
// tag: in roff already.
std::string entry(const std::string& tag, const std::string& meaning) { return ".TP\n" + tag + "\n" + meaning + "\n"; }

std::string usage_of(const CLI::App& command) {
  std::string usage = in_bold("octet " + command.get_name());
  for (const CLI::Option* place : places_of(command)) {
    const std::string word = in_italics(place->get_name(true)) + (repeats(*place) ? " ..." : "");
    usage += place->get_required() ? " " + word : " [" + word + "]";
  }
  return usage + " [" + in_italics("options") + "]";
}

// The words that CLI11 makes of a type and its check: "FLOAT:FLOAT in [0 - 1]", "TEXT:{train,test}".
std::string option_entry(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  const std::string check = colon == std::string::npos ? "" : type.substr(colon + 1);
  const std::vector<std::string> choices = argument_of(option).choices;
  std::string tag = option.nonpositional() ? in_bold(option.get_name(false, true)) : in_italics(option.get_name(true));
  if (option.nonpositional() && takes_value(option))
    tag += " " + in_italics(choices.empty() ? type.substr(0, colon) : joined(choices, "|"));
  if (repeats(option)) tag += " ...";
  std::string meaning = roff(option.get_description()) + ".";
  if (option.get_required() && option.nonpositional()) meaning += " Required.";
  if (const size_t range = check.find('['); range != std::string::npos)
    meaning += " Values: " + roff(check.substr(range)) + ".";
  if (!option.get_default_str().empty()) meaning += " Default: " + roff(option.get_default_str()) + ".";
  return entry(tag, meaning);
}

std::string command_section(const CLI::App& command, const CLI::App& all) {
  std::string text = subheading("octet " + command.get_name()) + usage_of(command) + "\n.PP\n" +
                     roff(command.get_description()) + ".\n";
  for (const CLI::Option* place : places_of(command)) text += option_entry(*place);
  for (const CLI::Option* option : named_options(command)) text += option_entry(*option);
  const std::string footer = command.get_footer();  // CLI11 hands that of the program to commands without one
  if (footer.empty() || footer == all.get_footer() || footer == exit_code_table()) return text;
  return text + ".PP\n" + roff(footer) + "\n";
}

std::string key_entry(const Key& key) {
  const std::vector<std::string> choices = choices_of(key);
  return entry(in_bold(key.path),
               roff(key.meaning) + ".\n.br\nValues: " + roff(choices.empty() ? domain_of(key) : joined(choices, ", ")) +
                   ". Default: " + roff(default_text(key)) + ".");
}

std::string keys_section() {
  std::string text = heading("CONFIGURATION KEYS"), before;
  text += "A recipe is a YAML file of these keys. " + in_bold("--set") + " " + in_italics("KEY=VALUE") +
          " overrides one.\n";
  for (const Key& key : keys()) {
    const std::string section = key.path.substr(0, key.path.find('.'));
    if (section != before) text += subheading(section);
    before = section;
    text += key_entry(key);
  }
  return text;
}

}  // namespace

std::string man_page(const CLI::App& all) {
  std::string text = std::string(".\\\" Written by `octet help --man`.\n.TH OCTET 1 \"\" \"octet ") + roff(version) +
                     "\" \"User Commands\"\n" + heading("NAME") +
                     "octet \\- trainer of convolutional networks in INT8\n" + heading("SYNOPSIS");
  for (const CLI::App* command : all.get_subcommands({})) text += usage_of(*command) + "\n.br\n";
  text += in_bold("octet") + " " + in_bold("--version") + " | " + in_bold("--help") + "\n";
  text += heading("DESCRIPTION") + roff(all.get_description()) + "\n";
  for (const CLI::Option* option : named_options(all)) text += option_entry(*option);
  text += option_entry(*all.get_help_ptr());
  text += heading("COMMANDS");
  for (const CLI::App* command : all.get_subcommands({})) text += command_section(*command, all);
  text += keys_section() + heading("EXIT STATUS");
  for (const ExitMeaning& of : exit_meanings())
    text += entry(in_bold(std::to_string(int(of.code))),
                  roff(of.meaning) + (of.retry ? ". Starting again with " + in_bold("--resume") + " can help." : "."));
  text += heading("FILES");
  for (const ManEntry& file : man_files) text += entry(in_italics(file.what), roff(file.meaning));
  text += heading("EXAMPLES");
  for (const ManEntry& example : man_examples) text += entry(in_bold(example.what), roff(example.meaning));
  return text + heading("SEE ALSO") + ".BR mpirun (1)\n";
}

}  // namespace octet
