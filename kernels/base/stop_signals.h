// Signals that ask the process to stop at the next good moment.
#pragma once
#include <sys/types.h>

#include <initializer_list>

namespace octet {

// Keeps these signals pending until stop_on() handles them. Called first in main(), before a program can be ready for a
// signal. Programs that execv() starts inherit it.
void hold(std::initializer_list<int> signals);
// From now on these signals set the request below instead of ending the process, and system calls that they interrupt
// continue (SA_RESTART). Signals that were held arrive now. SIGPIPE is ignored: `| tee` dies of the same Ctrl-C. SIGHUP
// stays ignored after `nohup`.
void stop_on(std::initializer_list<int> signals);
// Whether one of the signals has arrived. Any thread may ask.
bool stop_requested();
// The handler sends SIGUSR1 to this process too. 0: to none.
void forward_stop_to(pid_t);

}  // namespace octet
