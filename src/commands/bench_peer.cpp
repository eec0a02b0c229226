// `octet bench --peer`: a step of octet beside one of PyTorch. The comparison is a script, since PyTorch is a library
// of Python.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "kernels/base/error.h"
#include "src/commands/bench.h"

namespace octet {

int bench_peer(const std::vector<std::string>& arguments) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  std::filesystem::path root = program.parent_path();
  const auto script = [&] { return root / "bench" / "peers" / "compare.py"; };
  while (!std::filesystem::exists(script()) && root.has_relative_path()) root = root.parent_path();
  REQUIRE_USAGE(std::filesystem::exists(script()), "run octet from the build folder of its source",
                "bench/peers/compare.py, the comparison, is in no folder above ", program.string());

  std::vector<std::string> words{"python3", script().string(), "--program", program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  throw UsageError(__FILE__, __LINE__, say("python3, which runs PyTorch, does not start: ", std::strerror(errno)),
                   "install it: sudo apt-get install python3-venv");
}

}  // namespace octet
