// `octet bench --peer`: octet's step beside PyTorch's. The comparison is a script, since the peer is a Python program.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "kernels/base/error.h"
#include "src/train/commands.h"

namespace octet {

int run_bench_peer(const std::vector<std::string>& networks, const std::vector<std::string>& options) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  std::filesystem::path root = program.parent_path();
  const auto script = [&] { return root / "bench" / "peers" / "compare.py"; };
  while (!std::filesystem::exists(script()) && root.has_relative_path()) root = root.parent_path();
  REQUIRE_USAGE(std::filesystem::exists(script()), "run octet from the build folder of its source",
                "bench/peers/compare.py, the comparison, lies in no folder above ", program.string());

  std::vector<std::string> words{"python3", script().string(), "--program", program.string()};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), networks.begin(), networks.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw UsageError(__FILE__, __LINE__, say("python3, which runs PyTorch, does not start: ", std::strerror(errno)),
                   "install it: sudo apt-get install python3-venv");
}

}  // namespace octet
