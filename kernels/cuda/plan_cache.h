// Plans of a library, kept as text on disk between runs, one file each.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace octet::cuda {

class PlanCache {
 public:
  // made_for: what plans depend on besides their problem, in one line: "cuDNN 9.19.0, NVIDIA H200". With an empty
  // folder nothing is kept.
  PlanCache(std::filesystem::path folder, std::string made_for);
  // The plan of a problem (one line); nothing if there is none or its file is damaged.
  std::optional<std::string> find(const std::string& problem) const;
  // If the folder cannot be written, nothing is kept and the next run makes the plan again.
  void keep(const std::string& problem, const std::string& plan) const;

  // $XDG_CACHE_HOME/octet, or ~/.cache/octet; empty if neither is known.
  static std::filesystem::path default_folder();

 private:
  std::string head(const std::string& problem, const std::string& plan) const;
  std::filesystem::path file(const std::string& problem) const;
  std::filesystem::path folder_;
  std::string made_for_;
};

}  // namespace octet::cuda
