#include "emulated_cuda/driver.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace emulated_cuda {
namespace {

using namespace sparkpilot::cuda;

std::string setting(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value && *value ? value : otherwise;
}

// EMULATED_CUDA_SLOW_EXIT: seconds, as a driver takes to end a process with much memory.
struct SlowExit {
  ~SlowExit() {
    const double seconds = std::atof(setting("EMULATED_CUDA_SLOW_EXIT", "0").c_str());
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
} slow_exit;

}  // namespace

thread_local Driver::Current current_context;

namespace {
std::unique_ptr<Driver>& instance() {
  static std::unique_ptr<Driver> driver;
  return driver;
}
std::mutex instance_mutex;
}  // namespace

Driver& Driver::get() {
  const std::lock_guard lock(instance_mutex);
  if (!instance()) instance().reset(new Driver);
  return *instance();
}
void Driver::reset() {
  const std::lock_guard lock(instance_mutex);
  instance().reset();
}

Driver::Driver() {
  std::istringstream keys(setting("EMULATED_GPU", "gb10"));
  for (std::string key; std::getline(keys, key, ',');) {
    const auto found = std::find_if(std::begin(kGpus), std::end(kGpus), [&](const GpuKind& g) { return g.key == key; });
    if (found != std::end(kGpus)) gpus.push_back(found);
    else if (key != "none") std::fprintf(stderr, "emulated CUDA: no GPU named %s\n", key.c_str());
  }
  retained.resize(gpus.size());
  ended.resize(gpus.size());
  idle = setting("EMULATED_CUDA_IDLE") == "1";
  std::istringstream planted(setting("EMULATED_CUDA_TIMES"));
  for (std::string one; std::getline(planted, one, ',');) {
    const size_t equals = std::min(one.find('='), one.size());
    times[one.substr(0, equals)] = std::atof(one.c_str() + std::min(equals + 1, one.size()));
  }
  size_t limit = gpus.empty() ? 0 : gpus[0]->memory_bytes;
  if (const std::string set = setting("EMULATED_CUDA_MEMORY"); !set.empty()) limit = std::min(limit, std::stoul(set));
  if (setting("EMULATED_CUDA_CHECK") == "1") {
    checker = std::make_unique<sparkpilot::emulator::Checker>();
    checker->count_traffic(true);
  }
  memory = std::make_unique<Memory>(limit, gpus.empty() || gpus[0]->concurrent_managed);
}

Driver::~Driver() {
  if (const std::string path = setting("EMULATED_CUDA_REPORT"); !path.empty()) std::ofstream(path) << report();
}

const GpuKind& Driver::current() const { return *gpus[static_cast<size_t>(std::max(current_context.gpu, 0))]; }

int Driver::enter(const char* name, bool needs_context) {
  const int count = ++calls[name];
  if (sticky) return sticky;
  const std::string set = setting("EMULATED_CUDA_FAIL");
  char failing[64];
  int nth = 0, code = 0;
  if (std::sscanf(set.c_str(), "%63[^:]:%d:%d", failing, &nth, &code) == 3 && std::string(failing) == name &&
      count == nth) {
    if (code >= 700 && code < 720) sticky = code;
    return code;
  }
  if (!initialised && std::string(name) != "cuInit" && std::string(name) != "cuDriverGetVersion")
    return kNotInitialized;
  if (!needs_context) return kSuccess;
  if (current_context.gpu < 0) return kInvalidContext;
  return ended[static_cast<size_t>(current_context.gpu)] == current_context.ended ? kSuccess : kContextIsDestroyed;
}

int Driver::forbidden_in_capture() {
  bool any = false;
  for (Stream* stream : streams) {
    if (!stream->capturing || stream->capturing_thread != std::this_thread::get_id()) continue;
    any = true;
    stream->spoilt = true;
  }
  return any ? kCaptureUnsupported : kSuccess;
}

int Driver::submit(StreamHandle handle, Work work) {
  Stream* const stream = reinterpret_cast<Stream*>(handle);
  if (!streams.contains(stream)) {  // the legacy stream, too: it would wait for all others
    std::fprintf(stderr, "emulated CUDA: %s on a stream that does not exist\n", work.what.c_str());
    return kInvalidHandle;
  }
  if (stream->capturing) {
    if (stream->spoilt) return kCaptureInvalidated;
    stream->captured.push_back(std::move(work));
    return kSuccess;
  }
  stream->queue.push_back(std::move(work));
  update_queued();
  return kSuccess;
}

int Driver::run(Stream& stream, std::size_t until, bool wait) {
  if (stream.queue.empty()) return sticky;
  // A copy opens its own buffers: changing the protection of all of them for each took half of a test's time.
  bool ready = true, all_open = false;
  while (!stream.queue.empty() && stream.done < until && !sticky && ready) {
    Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (!all_open && !work.reaches) {
      memory->open_for_work();
      all_open = true;
    }
    if (!all_open) memory->open(*work.reaches);
    const int result = work.run();
    if (!all_open) memory->close(*work.reaches);
    if (result == kNotReady) {
      stream.queue.push_front(std::move(work));
      ready = wait;
      if (wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    ++stream.done;
    if (result) sticky = result;
  }
  if (sticky) stream.queue.clear();
  update_queued();
  if (all_open) memory->close_after_work();
  return ready || sticky ? sticky : static_cast<int>(kNotReady);
}

int Driver::run_everything() {
  for (Stream* stream : streams) run(*stream);
  return sticky;
}

void Driver::update_queued() {
  memory->work_is_queued(
      std::any_of(streams.begin(), streams.end(), [](const Stream* s) { return !s->queue.empty(); }));
}

double Driver::now() const {
  if (!times.empty()) return virtual_seconds;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Driver::take_time(const std::string& kernel, const sparkpilot::emulator::LaunchShape& shape) {
  constexpr double kOthers = 10;  // microseconds
  std::ostringstream with_grid;
  with_grid << kernel << ":" << shape.grid.x << "x" << shape.grid.y << "x" << shape.grid.z;
  auto found = times.find(with_grid.str());
  if (found == times.end()) found = times.find(kernel);
  virtual_seconds += (found == times.end() ? kOthers : found->second) * 1e-6;
}

void Driver::take_checks(const std::string& kernel) {
  if (!checker) return;
  for (const std::string& finding : checker->take_findings())
    findings.push_back(std::string(kernel).append(": ").append(finding));
  for (const auto& line : checker->take_traffic()) {
    auto& sum = traffic[{kernel, line.line + (line.shared ? " shared" : line.write ? " write" : " read")}];
    sum.requests += line.requests, sum.bytes += line.bytes, sum.sectors += line.sectors;
    sum.worst_bank = std::max(sum.worst_bank, line.worst_bank);
  }
}

std::string Driver::report() const {
  std::ostringstream out;
  out << "held contexts " << std::count_if(retained.begin(), retained.end(), [](int n) { return n > 0; }) << " modules "
      << modules.size() << " buffers " << memory->count() << " streams " << streams.size() << " events "
      << events.size() << " graphs " << graphs.size() << " executables " << executables.size() << "\n";
  out << "most memory " << memory->most_used() << "\n";
  for (const std::string& image : images) out << "image " << image << "\n";
  for (const auto& [name, count] : calls) out << "call " << name << " " << count << "\n";
  for (const auto& [name, bytes] : copied) out << "bytes " << name << " " << bytes << "\n";
  for (const auto& [name, count] : launched) out << "kernel " << name << " " << count << "\n";
  for (const std::string& finding : findings) out << "finding " << finding << "\n";
  for (const auto& [where, sum] : traffic) {
    out << "traffic " << where.first << " " << where.second << " " << sum.requests << " " << sum.bytes << " "
        << sum.sectors << " " << sum.worst_bank << "\n";
  }
  return out.str();
}

}  // namespace emulated_cuda
