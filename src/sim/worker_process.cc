#include "sim/worker_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "sim/algorithm_memory.h"
#include "sim/csv.h"

namespace sparkpilot::sim {
namespace {

// Python imports packages meanwhile, and reset() may read a network.
constexpr double kLoadSeconds = 120, kResetSeconds = 30;
constexpr double kLookSeconds = 0.1;  // how often a wait looks whether it shall end
constexpr size_t kLongestLine = 1 << 20;

// A file without a name, which cannot become smaller: a worker that made it so would end us.
int shared_file(size_t bytes) {
  const int fd = ::memfd_create("sparkpilot-algorithm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    fail("no memory to share with a worker process: {}", reason);
  }
  return fd;
}

}  // namespace

const char* const kScriptRunner =
#include "sim/algorithm_runner.inc"
    ;

WorkerProcess::WorkerProcess(const std::vector<std::string>& command, const WorkerOptions& options, size_t bytes)
    : step_timeout_(options.step_timeout), bytes_(bytes) {
  if (!(step_timeout_ > 0)) fail("sim: a step timeout of {} s, expected more than 0", step_timeout_);
  const int fd = shared_file(bytes);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  try {
    if (memory == MAP_FAILED) fail("no memory to share with a worker process: {}", std::strerror(errno));
    memory_ = memory;
    process_ = std::make_unique<ChildProcess>(ChildOptions{
        .command = command, .folder = {}, .unset = options.unset, .longest_line = kLongestLine, .shared = fd});
    static_assert(ChildProcess::kSharedFd == kAlgorithmMemoryFd);
  } catch (...) {
    if (memory_) ::munmap(memory_, bytes_);
    ::close(fd);
    throw;
  }
  ::close(fd);
}

WorkerProcess::~WorkerProcess() {
  process_.reset();
  ::munmap(memory_, bytes_);
}

std::string WorkerProcess::ask(const std::string& line, double seconds, std::string* answer,
                               const std::atomic<bool>* stop) {
  std::string said, reason;
  ChildProcess::Answer got = ChildProcess::Answer::ok;
  if (!line.empty()) got = process_->write_line(line, seconds);
  if (got == ChildProcess::Answer::ok) {
    const int64_t until = now_ns() + static_cast<int64_t>(std::min(seconds, 1e9) * 1e9);
    do {
      const double left = static_cast<double>(until - now_ns()) * 1e-9;
      got = process_->read_line(said, std::clamp(left, 0.0, kLookSeconds));
    } while (got == ChildProcess::Answer::late && now_ns() < until && !(stop && stop->load()));
  }
  switch (got) {
    case ChildProcess::Answer::ok:
      if (answer && (line.empty() || said.starts_with("ok "))) {
        *answer = said;
        return {};
      }
      if (said == "ok" && !answer) return {};
      if (said.starts_with("error ")) return valid_utf8(one_line(said.substr(6, 1000)));
      reason = "answered what it should not";
      break;
    case ChildProcess::Answer::late:
      reason = fmt::format("no answer within {:g} s", seconds);
      hung_ = true;
      break;
    case ChildProcess::Answer::too_long: reason = "answered too much"; break;
    case ChildProcess::Answer::ended: reason = process_->how_it_ended(); break;
  }
  lost_ = true;
  const std::string error = process_->last_error();
  return error.empty() ? reason : reason + ": " + valid_utf8(error);
}

std::string WorkerProcess::description(const std::string& file, const std::atomic<bool>* stop) {
  std::string answer;
  const std::string wrong = ask("", kLoadSeconds, &answer, stop);
  if (!wrong.empty() && !(stop && stop->load())) fail("{}: {}", file, wrong);
  return answer;
}

std::string WorkerProcess::reset(size_t worlds, const std::atomic<bool>* stop) {
  process_->forget_errors();  // of other worlds
  return ask(fmt::format("reset {}", worlds), std::max(kResetSeconds, step_timeout_), nullptr, stop);
}

std::string WorkerProcess::update(const std::atomic<bool>* stop, std::string* answer) {
  return ask("update", step_timeout_, answer, stop);
}

}  // namespace sparkpilot::sim
