// `octet check`: what a data set of image files holds, before a training finds out.
#include "kernels/base/text.h"
#include "src/commands/command.h"
#include "src/report/check/data_check.h"

namespace octet {

Run check_command(CLI::App& app) {
  const auto recipe = std::make_shared<Recipe>();
  add_recipe(app, *recipe);
  return [recipe] {
    return run_on_ranks(*recipe, [](const Config& config, Transport& transport) {
      if (transport.rank() != 0) return 0;
      const DataCheck check = check_data(config);
      std::string text = check.page + "\n";
      for (const std::string& warning : check.warnings) text += "warning: " + printable(warning, /*lines=*/true) + "\n";
      for (const std::string& error : check.errors) text += "error: " + printable(error, /*lines=*/true) + "\n";
      if (check.errors.empty()) text += check.warnings.empty() ? "nothing is wrong\n" : "nothing stops a training\n";
      print_folded(text);
      return check.errors.empty() ? 0 : 1;
    });
  };
}

}  // namespace octet
