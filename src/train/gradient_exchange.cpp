#include "src/train/gradient_exchange.h"

#include <spdlog/spdlog.h>

#include "comm/nccl.h"

namespace octet {
namespace {

// Whether gradients are exchanged from GPU to GPU. The result is the same on all ranks.
bool over_nccl(const Config& config, Transport& transport, const Backend& backend) {
  const std::string& wanted = config.comm.transport;
  if (wanted == "mpi" || backend.host_memory() || transport.size() == 1 || config.backend.share_gpu) return false;
  if (wanted == "nccl") return true;
  const std::string obstacle = nccl_obstacle();
  float missing = obstacle.empty() ? 0 : 1;
  transport.all_reduce_sum(std::span(&missing, 1));
  if (missing > 0)
    spdlog::info("gradients are exchanged through host memory over MPI: {}",
                 obstacle.empty() ? std::string("a rank has no NCCL") : obstacle);
  return missing == 0;
}

}  // namespace

std::unique_ptr<GradientExchange> make_gradient_exchange(const Config& config, Transport& transport, Backend& backend,
                                                         Parameters& parameters) {
  ExchangeConfig exchange;
  exchange.kind = config.comm.exchange == "int8"    ? ExchangeKind::int8
                  : config.comm.exchange == "exact" ? ExchangeKind::exact
                                                    : ExchangeKind::fp32;
  exchange.overlap = config.comm.overlap;
  exchange.bucket_bytes = size_t(config.comm.bucket_mb * (1 << 20));
  const uint64_t seed = uint64_t(config.seed);
  if (!over_nccl(config, transport, backend))
    return make_exchange(exchange, transport.duplicate(), parameters.exchanged_on_host(), parameters.slices(), seed);
  std::unique_ptr<SideStream> stream = backend.make_side_stream();
  auto collectives = make_nccl_collectives(transport, stream->handle(), config.comm.timeout_seconds,
                                           [&backend] { backend.forget_programs(); });
  return make_device_exchange(exchange, std::move(stream), std::move(collectives), parameters.exchanged(),
                              parameters.slices(), seed);
}

}  // namespace octet
