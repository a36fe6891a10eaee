// How fast a model runs, what resources it uses, and how near it comes to the machine's limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/statistics.h"
#include "bench/gpu_figures.h"
#include "hw/peak.h"
#include "runtime/session.h"

namespace sparkpilot {

inline constexpr int64_t kMostStreams = 64;  // each is a thread and a copy of the weights

struct BenchOptions {
  SessionOptions session;      // `threads` in it is ignored; kernels timed in a trial are not timed again
  std::optional<int> threads;  // empty: the best of 1, 2, 4 ... all, found by measuring
  int64_t runs = 100;          // timed runs
  int64_t warmup = 10;         // before them, not counted
  int64_t batch = 1;           // entries per run (session_batch)
  // On a GPU: sessions that run at the same time in a further measurement, if more than one; at most kMostStreams.
  int64_t streams = 1;
  uint64_t seed = 1;     // of the inputs
  bool profile = false;  // keep the nodes' times in the result
  // Called from time to time with the share of the work done, 0 to 1.
  std::function<void(double done)> progress;
};

struct ThreadTrial {
  int threads = 0;
  double p50_ms = 0;
  std::vector<KernelDecision> choices = {};  // of its session
};

struct ModelBench {
  std::string file;
  int64_t file_bytes = 0;                 // with its external data
  std::string file_fnv1a_64;              // bench/facts.h
  Precision precision = Precision::fp32;  // asked for
  int64_t batch = 1;                      // frames per run
  int threads = 0;
  std::vector<ThreadTrial> trials;           // the measurements for choosing the threads; empty if they were given
  Statistics ms;                             // of one run
  double first_ms = 0;                       // of the first run after loading
  double load_ms = 0;                        // from the file until ready for the first run, without these two
  double ptx_ms = 0, tuning_ms = 0;          // Session::LoadTimes
  std::optional<int64_t> peak_memory_bytes;  // of the process while loading and running, minus its memory before
  int64_t weight_bytes = 0;                  // Session::weight_bytes()
  double flops = 0;                          // one run; a multiply-add is two
  double roofline_share = 0;                 // 0 to 1; see runtime/roofline.h. Of a GPU's nodes, where it ran on one
  std::string roofline_limit;                // the main limit; empty if none is known
  Peak peak;                                 // the limits, measured right before and after the profiled runs
  std::optional<GpuFigures> gpu;             // where it ran on one; `peak` is then that GPU's
  std::vector<KernelDecision> choices;       // Session::choices()
  Profile profile;  // of a few runs of a separate session, so that timing nodes does not affect the above
  std::vector<std::string> notes;  // assumptions, such as sizes of open dimensions
  double frames_per_second() const { return ms.mean > 0 ? 1e3 * static_cast<double>(batch) / ms.mean : 0; }
};

// Decides where the model runs, once for all sessions and processes of a measurement: `options.session.device` becomes
// "cpu" or "cuda:N", and a precision that is automatic what it is there. For `auto` the device is what a first run
// took, whose line goes to `say`. Fails (user) if several streams are asked for and it is the CPU.
void settle_device(const std::filesystem::path& file, BenchOptions& options);

// Settles the device. Fails (user) with the file in the message.
ModelBench bench_model(const std::filesystem::path& file, const BenchOptions& options = {});

}  // namespace sparkpilot
