#include "src/train/deletion_watch.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

namespace octet {

void DeletionWatch::look(RunDirectory& directory, std::unique_ptr<MetricsWriter>& metrics,
                         std::optional<BestWeights>& best, int64_t step) {
  const std::string deleted = directory.deleted() ? directory.path() : metrics->deleted_file();
  if (deleted.empty()) return;
  ranks_.heart().enter(activity::saving);
  if (!std::exchange(told_, true))
    spdlog::warn("{} was deleted in mid-run: what it held is lost, and the training goes on with a new one", deleted);
  try {
    make_again(directory, metrics, best, step);
    told_ = failed_ = false;
  } catch (const InUseError&) {
    throw;
  } catch (const Error& error) {
    if (!std::exchange(failed_, true)) spdlog::warn("{} cannot be made again yet: {}", deleted, error.what());
  }
}

void DeletionWatch::make_again(RunDirectory& directory, std::unique_ptr<MetricsWriter>& metrics,
                               std::optional<BestWeights>& best, int64_t step) {
  if (directory.deleted()) {
    directory.make_again(config_);
    ranks_.make_file_again();
  }
  metrics = std::make_unique<MetricsWriter>(directory.path(), step);
  if (best) best.emplace(directory.path(), /*resumed=*/true);
}

}  // namespace octet
