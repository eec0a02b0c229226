#include "kernels/base/stop_signals.h"

#include <atomic>
#include <csignal>

namespace octet {
namespace {

// A signal handler can reach nothing but globals. Threads read them too, so `volatile sig_atomic_t` is not enough.
std::atomic<bool> requested = false;
std::atomic<pid_t> receiver = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void change_mask(int how, std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(how, &set, nullptr);
}

}  // namespace

void hold(std::initializer_list<int> signals) { change_mask(SIG_BLOCK, signals); }

void stop_on(std::initializer_list<int> signals) {
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    requested = true;
    if (const pid_t process = receiver; process > 0) kill(process, SIGUSR1);
  };
  for (const int signal : signals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    const bool nohup = signal == SIGHUP && before.sa_handler == SIG_IGN;
    if (!nohup) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  change_mask(SIG_UNBLOCK, signals);
}

bool stop_requested() { return requested; }

void forward_stop_to(pid_t process) { receiver = process; }

}  // namespace octet
