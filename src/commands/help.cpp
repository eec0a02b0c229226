// `octet help`, `octet help COMMAND` and `octet help keys`
#include <iostream>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/loader.h"
#include "src/models/backbone.h"
#include "src/models/models.h"
#include "src/quant/policy.h"

namespace octet {

Run help_command(CLI::App& app) {
  const auto topic = std::make_shared<std::string>();
  app.add_option("topic", *topic, "A command, or keys: every configuration key");
  return [topic, &app] {
    const CLI::App& all = *app.get_parent();
    if (*topic == "keys") {
      std::cout << describe_keys({{"model.name", model_names()},
                                  {"model.backbone", backbone_names()},
                                  {"policy.name", policy_names()},
                                  {"data.name", data_source_names()},
                                  {"backend.isa", isa_names()}});
      return 0;
    }
    const auto commands = all.get_subcommands([&](const CLI::App* command) { return command->get_name() == *topic; });
    const CLI::App* command = topic->empty() ? &all : commands.empty() ? nullptr : commands.front();
    REQUIRE_USAGE(command != nullptr, "use octet help, octet help COMMAND or octet help keys", "there is no help on `",
                  *topic, "`");
    std::cout << command->help(topic->empty() ? "" : "octet " + *topic);
    return 0;
  };
}

}  // namespace octet
