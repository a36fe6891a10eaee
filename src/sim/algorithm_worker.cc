#include "sim/algorithm_worker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/statistics.h"
#include "sim/algorithm_memory.h"

namespace sparkpilot::sim {
namespace {

using Json = nlohmann::ordered_json;

// Lines between the two processes, away from the stdin and stdout that the library sees.
class Lines {
 public:
  Lines() {
    in_ = ::fdopen(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10), "r");
    out_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::close(nothing);
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // what is printed before a crash is seen
  }
  bool read(std::string& line) {
    char text[100];
    if (!in_ || !std::fgets(text, sizeof text, in_)) return false;
    line = text;
    if (!line.empty() && line.back() == '\n') line.pop_back();
    return true;
  }
  void write(std::string line) const {
    line += '\n';
    if (::write(out_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(1);
  }

 private:
  std::FILE* in_ = nullptr;
  int out_ = -1;
};

// What is wrong with a library; empty if it can be used.
std::string load(const char* file, const SparkpilotAlgorithm*& algorithm) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = ::dlerror();
    return std::string("cannot be loaded: ") + (error ? error : "unknown reason");
  }
  const auto entry = reinterpret_cast<decltype(&sparkpilot_algorithm)>(::dlsym(library, "sparkpilot_algorithm"));
  if (!entry) return "has no function sparkpilot_algorithm (sparkpilot/algorithm.h)";
  algorithm = entry();
  if (!algorithm) return "sparkpilot_algorithm() returned no table";
  if (algorithm->version != SPARKPILOT_ALGORITHM_VERSION) {
    return "is made for version " + std::to_string(algorithm->version) +
           " of sparkpilot/algorithm.h, this program has " + std::to_string(SPARKPILOT_ALGORITHM_VERSION);
  }
  if (algorithm->steering > SPARKPILOT_ANGLE) return "steering is " + std::to_string(algorithm->steering);
  if (algorithm->longitudinal > 1) return "longitudinal is " + std::to_string(algorithm->longitudinal);
  if (!algorithm->reset) return "its table has no reset";
  if (!algorithm->update && !algorithm->update_batch) return "its table has neither update nor update_batch";
  if (algorithm->parameter_count > 0 && !algorithm->parameters) return "its table has no parameters";
  return {};
}

std::string description(const SparkpilotAlgorithm& algorithm) {
  Json parameters = Json::array();
  const auto text = [](const char* from) { return from ? std::string(from) : std::string(); };
  for (uint32_t i = 0; i < algorithm.parameter_count && i <= kMostAlgorithmParameters; ++i) {
    const SparkpilotParameter& p = algorithm.parameters[i];
    parameters.push_back(
        {{"name", text(p.name)}, {"unit", text(p.unit)}, {"meaning", text(p.meaning)}, {"value", p.value}});
  }
  const Json json = {{"steering", algorithm.steering == SPARKPILOT_TORQUE ? "torque" : "angle"},
                     {"longitudinal", algorithm.longitudinal == 1},
                     {"parameters", std::move(parameters)}};
  return json_text(json);
}

class Worker {
 public:
  Worker(const SparkpilotAlgorithm& algorithm, AlgorithmMemory& memory) : algorithm_(algorithm), memory_(memory) {}

  std::string answer(const std::string& line) {
    if (line == "update") {
      update(worlds_, memory_.seen, memory_.out);
      return "ok";
    }
    if (line.starts_with("reset ")) {
      worlds_ = static_cast<uint32_t>(std::stoul(line.substr(6)));
      if (worlds_ == 0 || worlds_ > kWorldsOfWorker) return "error reset of too many worlds";
      const int reason = algorithm_.reset(worlds_, memory_.cars, memory_.parameters);
      return reason == 0 ? "ok" : "error reset returned " + std::to_string(reason);
    }
    if (line.starts_with("time ")) return time(std::stod(line.substr(5)));
    return "error not understood";
  }

 private:
  void update(uint32_t worlds, const SparkpilotObservation* seen, SparkpilotOutput* out) const {
    if (algorithm_.update_batch) return algorithm_.update_batch(worlds, seen, out);
    for (uint32_t i = 0; i < worlds; ++i) algorithm_.update(i, seen + i, out + i);
  }

  // One world, to which what lies in the memory happens one after the other, for these seconds at most and an update.
  std::string time(double seconds) const {
    constexpr size_t kFirst = kWorldsOfWorker, kUpdates = 40 * kWorldsOfWorker;
    std::vector<double> times;
    const int64_t begun = now_ns();
    double gone = 0;
    for (size_t i = 0; i < kFirst + kUpdates && gone <= seconds; ++i) {
      SparkpilotOutput out{};
      const int64_t begin = now_ns();
      update(1, memory_.seen + i % kWorldsOfWorker, &out);
      const int64_t end = now_ns();
      gone = static_cast<double>(end - begun) * 1e-9;
      if (i >= kFirst || gone > seconds / 4) times.push_back(static_cast<double>(end - begin) * 1e-3);
    }
    const Statistics all = summarize(times);
    return "ok " + std::to_string(all.p50) + " " + std::to_string(all.p99);
  }

  const SparkpilotAlgorithm& algorithm_;
  AlgorithmMemory& memory_;
  uint32_t worlds_ = 0;
};

}  // namespace

int run_algorithm_worker(const char* file) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // crashes are expected, and may be many
  Lines lines;
  void* memory = ::mmap(nullptr, sizeof(AlgorithmMemory), PROT_READ | PROT_WRITE, MAP_SHARED, kAlgorithmMemoryFd, 0);
  if (memory == MAP_FAILED) return 1;
  ::close(kAlgorithmMemoryFd);
  const SparkpilotAlgorithm* algorithm = nullptr;
  if (const std::string wrong = load(file, algorithm); !wrong.empty()) {
    lines.write(json_text(Json{{"error", wrong}}));
    return 1;
  }
  lines.write(description(*algorithm));
  Worker worker(*algorithm, *static_cast<AlgorithmMemory*>(memory));
  for (std::string line; lines.read(line);) {
    std::string answer;
    try {
      answer = worker.answer(line);
    } catch (const std::exception& error) {
      answer = std::string("error exception: ") + error.what();
    } catch (...) {
      answer = "error an exception that is no std::exception";
    }
    for (char& c : answer) c = c == '\n' ? ' ' : c;
    lines.write(answer.substr(0, 1000));
  }
  return 0;
}

}  // namespace sparkpilot::sim
