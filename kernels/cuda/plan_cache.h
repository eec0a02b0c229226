// Plans of a library, kept as text on disk from one run to the next: a file for each.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace octet::cuda {

class PlanCache {
 public:
  // made_for: what plans hang on beside their problem, in one line: "cuDNN 9.19.0, NVIDIA H200". An empty folder keeps
  // nothing.
  PlanCache(std::filesystem::path folder, std::string made_for);
  // The plan of a problem (one line); nothing where there is none, or none that is whole.
  std::optional<std::string> find(const std::string& problem) const;
  // Where the folder cannot be written nothing is kept, and the plan is made anew in the next run.
  void keep(const std::string& problem, const std::string& plan) const;

  // $XDG_CACHE_HOME/octet, or ~/.cache/octet; empty where neither is known.
  static std::filesystem::path default_folder();

 private:
  std::string head(const std::string& problem, const std::string& plan) const;
  std::filesystem::path file(const std::string& problem) const;
  std::filesystem::path folder_;
  std::string made_for_;
};

}  // namespace octet::cuda
