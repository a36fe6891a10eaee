#include "bench/gpu_figures.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cctype>
#include <exception>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/gpu_compile.h"

namespace sparkpilot {
namespace {

// NVML's utilisation and power are means of up to a second, so the GPU works longer than that before it is metered.
constexpr double kBeforeSeconds = 1.5, kLoadSeconds = 1, kReadingSeconds = 0.1;

// NVML and CUDA write the same address with different zeros and letters: "00000000:0F:00.0", "0000:0f:00.0".
std::string plain_address(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const size_t bus = text.find(':');
  if (bus == std::string::npos) return text;
  const size_t zeros = std::min(text.find_first_not_of('0'), bus);
  return text.substr(zeros);
}

// Runs one after another for so long; returns how many.
int64_t run_for(Session& session, double seconds) {
  const int64_t begin = now_ns();
  int64_t runs = 0;
  for (; static_cast<double>(now_ns() - begin) < seconds * 1e9; ++runs) session.run();
  return runs;
}

}  // namespace

void measure_gpu_load(Session& session, int64_t batch, GpuFigures& out) {
  const auto of_this = [&](const WorkReport& report) -> const WorkReport::Gpu* {
    const auto found = std::find_if(report.gpus.begin(), report.gpus.end(), [&](const WorkReport::Gpu& gpu) {
      return !gpu.pci.empty() && plain_address(gpu.pci) == plain_address(out.facts.pci);
    });
    return found == report.gpus.end() ? nullptr : &*found;
  };
  if (!of_this(WorkMeter().finish())) return;
  run_for(session, kBeforeSeconds);
  WorkMeter meter({.interval_s = kReadingSeconds});
  const int64_t runs = run_for(session, kLoadSeconds);
  const WorkReport report = meter.finish();
  out.load_seconds = report.seconds;
  out.load_frames = static_cast<double>(runs * batch);
  if (const WorkReport::Gpu* const gpu = of_this(report)) out.load = *gpu;
}

std::shared_ptr<GpuDevice> gpu_of(const Session& session) {
  const std::optional<int> ordinal = gpu_of_device(session.device());
  return ordinal ? GpuDevice::open(*ordinal) : nullptr;
}

GpuFigures measure_gpu_figures(Session& session, int64_t warmup, int64_t runs,
                               const std::function<void(double)>& progress) {
  GpuFigures out;
  out.facts = gpu_of(session)->facts();
  std::vector<double> enqueue, to_gpu, compute, to_host;
  for (int64_t i = -warmup; i < runs; ++i) {
    session.run();
    if (i < 0) continue;
    const Session::GpuTimes times = session.gpu_times();
    enqueue.push_back(times.enqueue_ms);
    to_gpu.push_back(times.to_gpu_ms);
    compute.push_back(times.compute_ms);
    to_host.push_back(times.to_host_ms);
    if (progress) progress(static_cast<double>(i) / static_cast<double>(runs));
  }
  out.a_run = session.transfers();
  out.enqueue = summarize(enqueue);
  out.to_gpu = summarize(to_gpu);
  out.compute = summarize(compute);
  out.to_host = summarize(to_host);
  return out;
}

void measure_streams(std::vector<Session>& sessions, int64_t warmup, int64_t runs, int64_t batch, GpuFigures& out) {
  std::vector<std::vector<double>> ms(sessions.size());
  std::vector<std::exception_ptr> errors(sessions.size());
  std::barrier together(std::ssize(sessions) + 1);
  std::atomic<bool> all_started = false;
  const auto work = [&](size_t i) {
    together.arrive_and_wait();
    if (!all_started) return;
    const auto attempt = [&](int64_t times, bool timed) {
      try {
        for (int64_t run = 0; run < times && !errors[i]; ++run) {
          const int64_t begin = now_ns();
          sessions[i].run();
          if (timed) ms[i].push_back(static_cast<double>(now_ns() - begin) * 1e-6);
        }
      } catch (...) {
        errors[i] = std::current_exception();
      }
    };
    attempt(warmup, false);
    together.arrive_and_wait();
    attempt(runs, true);
    together.arrive_and_wait();
  };
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 0; i < sessions.size(); ++i) threads.emplace_back(work, i);
    all_started = true;
    together.arrive_and_wait();
  } catch (const std::system_error& error) {
    // For those that are missing, and for this one: the others wait.
    for (size_t i = threads.size(); i <= sessions.size(); ++i) together.arrive_and_drop();
    fail("streams: the system lets only {} of {} threads start ({})", threads.size(), sessions.size(), error.what());
  }
  together.arrive_and_wait();
  const int64_t begin = now_ns();
  together.arrive_and_wait();
  const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  threads.clear();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  std::vector<double> all;
  for (const std::vector<double>& one : ms) all.insert(all.end(), one.begin(), one.end());
  out.streams = static_cast<int>(sessions.size());
  out.stream_ms = summarize(all);
  out.stream_frames_per_second = static_cast<double>(std::ssize(all) * batch) / seconds;
}

}  // namespace sparkpilot
