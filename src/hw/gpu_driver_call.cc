#include "hw/gpu_driver_call.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "base/clock.h"

namespace sparkpilot {
namespace {

// The reason for each library that hung.
struct Hung {
  std::mutex mutex;
  std::map<std::string, std::string> reasons;
};
Hung& hung() {
  static Hung* const state = new Hung;  // never freed: a thread may outlive the process's static objects
  return *state;
}

bool mentions_missing_file(const std::string& message, const std::string& name) {
  return message.rfind(name + ": cannot open shared object file: No such file", 0) == 0;
}

}  // namespace

void Watch::calling(std::string_view name) {
  const std::lock_guard lock(mutex_);
  call_ = name;
  since_ns_ = now_ns();
  changed_.notify_all();
}

void Watch::finish(GpuDriverAnswers answers) {
  const std::lock_guard lock(mutex_);
  answers_ = std::move(answers);
  finished_ = true;
  changed_.notify_all();
}

bool Watch::finished() {
  const std::lock_guard lock(mutex_);
  return finished_;
}

GpuDriverAnswers Watch::wait(double wait_seconds) {
  const auto limit_ns = static_cast<int64_t>(wait_seconds * 1e9);
  std::unique_lock lock(mutex_);
  if (since_ns_ == 0) since_ns_ = now_ns();
  while (!finished_) {
    const int64_t left = since_ns_ + limit_ns - now_ns();
    if (left <= 0) {
      GpuDriverAnswers late;
      late.state = GpuDriverAnswers::State::timed_out;
      late.reason = fmt::format("{} did not come back within {} s", call_.empty() ? "loading it" : call_, wait_seconds);
      return late;
    }
    changed_.wait_for(lock, std::chrono::nanoseconds(left));
  }
  return std::move(answers_);
}

Library::Library(const std::vector<std::string>& names, Watch& watch) {
  for (const std::string& name : names) {
    watch.calling("dlopen");
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) {
      path_ = name;
      // The file that was loaded for a bare name: found through any of its symbols.
      for (const char* symbol : {"nvmlInit_v2", "nvmlInit", "cuInit"}) {
        Dl_info info = {};
        void* const address = dlsym(handle_, symbol);
        if (address && dladdr(address, &info) && info.dli_fname) path_ = info.dli_fname;
      }
      problem_.clear();
      return;
    }
    const char* const message = dlerror();
    if (message && !mentions_missing_file(message, name)) problem_ = message;
  }
}

void* Library::lookup(const char* symbol) const { return dlsym(handle_, symbol); }

GpuDriverAnswers ask_bounded(const std::vector<std::string>& libraries, double wait_seconds,
                             const std::function<GpuDriverAnswers(const Library&, Watch&)>& ask) {
  {
    const std::lock_guard lock(hung().mutex);
    if (const auto found = hung().reasons.find(libraries.at(0)); found != hung().reasons.end()) {
      GpuDriverAnswers late;
      late.state = GpuDriverAnswers::State::timed_out;
      late.reason = found->second;
      return late;
    }
  }
  const auto watch = std::make_shared<Watch>();
  std::thread([watch, libraries, ask] {
    const Library library(libraries, *watch);
    GpuDriverAnswers answers;
    if (library.loaded()) {
      answers = ask(library, *watch);
    } else {
      answers.state = library.problem().empty() ? GpuDriverAnswers::State::absent : GpuDriverAnswers::State::unusable;
      answers.reason = library.problem();
    }
    watch->finish(std::move(answers));
    // It was only slow, as a GPU is that wakes: it may be asked again.
    const std::lock_guard lock(hung().mutex);
    hung().reasons.erase(libraries[0]);
  }).detach();
  GpuDriverAnswers answers = watch->wait(wait_seconds);
  if (answers.state == GpuDriverAnswers::State::timed_out) {
    const std::lock_guard lock(hung().mutex);
    if (!watch->finished()) hung().reasons[libraries[0]] = answers.reason;
  }
  return answers;
}

std::string text_of(const char* buffer, size_t size) { return {buffer, strnlen(buffer, size)}; }

}  // namespace sparkpilot
