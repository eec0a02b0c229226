// faulty_job none|killed|throws|hangs: a job that exchanges gradients. In step 3 this fault happens to rank 1. The
// tests look at the exit code, and at the time until the job ends.
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "comm/exchange.h"
#include "comm/watchdog.h"
#include "kernels/base/error.h"
#include "kernels/base/exit_codes.h"

namespace octet {
namespace {

void run(const std::string& fault, Transport& transport) {
  Heart heart(transport.rank(), "testhost");
  Watchdog watchdog(heart, transport.size(), 3, [&] { transport.abort(exit_hang); });
  std::vector<float> gradient(100000, 1);
  const auto exchange =
      make_exchange({.bucket_bytes = 65536}, transport.duplicate(), gradient, {{0, gradient.size()}}, 1);
  for (uint32_t step = 0; step < 6; ++step) {
    heart.enter(activity::backward, step);
    if (step == 3 && transport.rank() == 1) {
      if (fault == "killed") std::raise(SIGKILL);
      REQUIRE(fault != "throws", "this is a test", "rank 1 throws");
      if (fault == "hangs") std::this_thread::sleep_for(std::chrono::hours(1));
    }
    exchange->begin(step);
    exchange->ready(0);
    heart.enter(activity::exchange, step);
    exchange->finish();
  }
}

}  // namespace
}  // namespace octet

int main(int argc, char** argv) {
  try {
    const auto transport = octet::make_transport(&argc, &argv);
    octet::run(argc > 1 ? argv[1] : "none", *transport);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
