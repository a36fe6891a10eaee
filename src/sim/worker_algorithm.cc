#include "sim/worker_algorithm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "sim/algorithm_worker.h"

namespace sparkpilot::sim {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

// Python imports packages meanwhile, and reset() may read a network.
constexpr double kLoadSeconds = 120, kResetSeconds = 30;
constexpr double kTimeSeconds = 10;   // the most that the answer to "time" may take
constexpr double kLookSeconds = 0.1;  // how often a wait looks whether it shall end
constexpr size_t kLongestLine = 1 << 20, kLongestText = 200;

constexpr const char* kRunner =
#include "sim/algorithm_runner.inc"
    ;

// A file without a name, which cannot become smaller: a worker that made it so would end us.
int shared_file() {
  const int fd = ::memfd_create("sparkpilot-algorithm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ::ftruncate(fd, sizeof(AlgorithmMemory)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    fail("no memory to share with a worker process: {}", reason);
  }
  return fd;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestText &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

AlgorithmWorker::AlgorithmWorker(const std::vector<std::string>& command, const WorkerOptions& options)
    : step_timeout_(options.step_timeout) {
  const int fd = shared_file();
  void* memory = ::mmap(nullptr, sizeof(AlgorithmMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  try {
    if (memory == MAP_FAILED) fail("no memory to share with a worker process: {}", std::strerror(errno));
    memory_ = static_cast<AlgorithmMemory*>(memory);
    process_ = std::make_unique<ChildProcess>(ChildOptions{
        .command = command, .folder = {}, .unset = options.unset, .longest_line = kLongestLine, .shared = fd});
    static_assert(ChildProcess::kSharedFd == kAlgorithmMemoryFd);
  } catch (...) {
    if (memory_) ::munmap(memory_, sizeof(AlgorithmMemory));
    ::close(fd);
    throw;
  }
  ::close(fd);
}

AlgorithmWorker::~AlgorithmWorker() {
  process_.reset();
  ::munmap(memory_, sizeof(AlgorithmMemory));
}

std::string AlgorithmWorker::ask(const std::string& line, double seconds, std::string* answer,
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
      if (said.starts_with("error ")) return one_line(said.substr(6, 1000));
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
  return error.empty() ? reason : reason + ": " + error;
}

std::string AlgorithmWorker::description(const std::string& file) {
  std::string answer;
  if (const std::string wrong = ask("", kLoadSeconds, &answer); !wrong.empty()) fail("{}: {}", file, wrong);
  return answer;
}

std::string AlgorithmWorker::reset(size_t worlds, const std::atomic<bool>* stop) {
  process_->forget_errors();  // of other worlds
  return ask(fmt::format("reset {}", worlds), std::max(kResetSeconds, step_timeout_), nullptr, stop);
}

std::string AlgorithmWorker::update(const std::atomic<bool>* stop) {
  return ask("update", step_timeout_, nullptr, stop);
}

std::string AlgorithmWorker::time(double& p50_us, double& p99_us, const std::atomic<bool>* stop) {
  std::string answer;
  const double most = std::min(kTimeSeconds, step_timeout_);
  const std::string question = fmt::format("time {}", std::min(most / 2, 1.0));
  if (std::string wrong = ask(question, most, &answer, stop); !wrong.empty()) return wrong;
  char* end = nullptr;
  p50_us = std::strtod(answer.c_str() + 3, &end);
  p99_us = std::strtod(end, nullptr);
  return std::isfinite(p50_us) && std::isfinite(p99_us) && p50_us >= 0 && p99_us >= p50_us ? "" : "gave no times";
}

WorkerAlgorithm::WorkerAlgorithm(const fs::path& file, WorkerOptions options)
    : UserAlgorithm(file), options_(std::move(options)) {
  if (!(options_.step_timeout > 0)) fail("sim: a step timeout of {} s, expected more than 0", options_.step_timeout);
  std::string description;
  auto worker = start(description);
  describe(description);
  give_back(std::move(worker));
}

WorkerAlgorithm::~WorkerAlgorithm() = default;

std::unique_ptr<AlgorithmWorker> WorkerAlgorithm::start(std::string& description) const {
  std::vector<std::string> command{"/proc/self/exe", kAlgorithmWorker, file().string()};
  if (file().extension() == ".py") command = {options_.python, "-u", "-c", kRunner, file().string()};
  std::unique_ptr<AlgorithmWorker> worker(new AlgorithmWorker(command, options_));
  description = worker->description(file().string());
  return worker;
}

void WorkerAlgorithm::describe(const std::string& description) {
  std::optional<Json> json;
  try {
    json = parse_bounded(description);
  } catch (const nlohmann::json::exception&) {
    fail("{}: its worker answered what is no JSON", file().string());
  }
  const auto text = [&](const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string() || found->get_ref<const std::string&>().size() > 2000) {
      fail("{}: \"{}\": expected a text", file().string(), key);
    }
    return one_line(found->get<std::string>());
  };
  if (!json || !json->is_object()) fail("{}: its worker did not describe it", file().string());
  if (json->contains("error")) fail("{}: {}", file().string(), text(*json, "error"));
  torque_ = text(*json, "steering") == "torque";
  longitudinal_ = json->value("longitudinal", Json(false)) == Json(true);
  const Json& parameters = json->value("parameters", Json::array());
  if (!parameters.is_array() || parameters.size() > kMostAlgorithmParameters) {
    fail("{}: expected at most {} parameters", file().string(), kMostAlgorithmParameters);
  }
  for (const Json& each : parameters) {
    if (!each.is_object()) fail("{}: a parameter is no object", file().string());
    UserParameter p{text(each, "name"), text(each, "unit"), text(each, "meaning"), 0};
    if (!is_name(p.name)) fail("{}: a parameter \"{}\", expected letters, digits and _", file().string(), p.name);
    if (p.unit.size() > kLongestText || p.meaning.size() > kLongestText) {
      fail("{}: parameter {}: expected texts of at most {} bytes", file().string(), p.name, kLongestText);
    }
    const auto value = each.find("value");
    if (value == each.end() || !value->is_number()) fail("{}: parameter {} is no number", file().string(), p.name);
    p.value = value->get<double>();
    if (!std::isfinite(p.value)) fail("{}: parameter {} is not finite", file().string(), p.name);
    if (std::ranges::find(parameters_, p.name, &UserParameter::name) != parameters_.end()) {
      fail("{}: parameter {} twice", file().string(), p.name);
    }
    parameters_.push_back(std::move(p));
  }
}

std::unique_ptr<AlgorithmWorker> WorkerAlgorithm::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
  }
  std::string description;
  return start(description);
}

void WorkerAlgorithm::give_back(std::unique_ptr<AlgorithmWorker> worker) const {
  if (worker->hung()) hung_ = true;
  if (worker->lost()) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

}  // namespace sparkpilot::sim
