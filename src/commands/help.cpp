// `octet help` and `octet help keys`
#include <iostream>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/config/keys.h"
#include "src/data/loader.h"
#include "src/models/backbone.h"
#include "src/models/models.h"
#include "src/quant/policy.h"

namespace octet {

Run help_command(CLI::App& app) {
  const auto topic = std::make_shared<std::string>();
  app.add_option("topic", *topic, "keys: every configuration key");
  return [topic, &app] {
    REQUIRE_USAGE(topic->empty() || *topic == "keys", "use octet help, octet help keys, or octet COMMAND --help",
                  "there is no help on `", *topic, "`");
    std::cout << (topic->empty() ? app.get_parent()->help()
                                 : describe_keys({{"model.name", model_names()},
                                                  {"model.backbone", backbone_names()},
                                                  {"policy.name", policy_names()},
                                                  {"data.name", data_source_names()},
                                                  {"backend.isa", isa_names()}}));
    return 0;
  };
}

}  // namespace octet
