#include "cli/interrupt.h"

#include <csignal>
#include <cstdio>
#include <thread>

#include "base/file.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

std::atomic<bool> graceful{false}, stop_requested{false}, tell{true};

void end_by(int signal) {
  AtomicFile::abandon_all();
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  std::raise(signal);
}

}  // namespace

void clean_up_when_interrupted() {
  std::signal(SIGXFSZ,
              SIG_IGN);  // writing past the file size limit then returns an error, which is reported, instead of ending
                         // the program
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals, signal);  // respect nohup
  }
  // Blocked in all threads, including the pool's, and awaited in one: a thread may take locks and call functions that a
  // signal handler may not.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) == 0) {
      if (!graceful || stop_requested.exchange(true)) return end_by(signal);
      if (tell) note("stopping: the files are finished first; once more ends at once");
    }
  }).detach();
}

StopOnInterrupt::StopOnInterrupt(bool say) {
  tell = say;
  stop_requested = false;
  graceful = true;
}

StopOnInterrupt::~StopOnInterrupt() { graceful = false; }

const std::atomic<bool>& StopOnInterrupt::requested() const { return stop_requested; }

}  // namespace sparkpilot::cli
