// What `bench` says of a model on a GPU besides the time of a run: where that time goes, and what the GPU does
// meanwhile.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/statistics.h"
#include "bench/gpu_limits.h"
#include "runtime/session.h"
#include "sparkpilot/work_meter.h"

namespace sparkpilot {

struct GpuFigures {
  GpuFacts facts;
  Session::Transfers a_run;
  // Of one run, in milliseconds: the processor hands it over; the GPU fetches inputs, computes, sends results. Their
  // sum is more than a run takes where the parts overlap. Copies are 0 where processor and GPU share their memory.
  Statistics enqueue, to_gpu, compute, to_host;
  GpuLimits limits;
  // While runs followed one another; empty where NVML does not answer for this GPU. All programs' use of it.
  std::optional<WorkReport::Gpu> load;
  double load_seconds = 0, load_frames = 0;
  // Where several streams were asked for: sessions that run at the same time, each by its own thread.
  int streams = 1;
  Statistics stream_ms;                 // of one run while the others run
  double stream_frames_per_second = 0;  // of all together
  std::optional<double> joules_a_frame() const {
    if (!load || !load->energy_j || load_frames == 0) return std::nullopt;
    return *load->energy_j / load_frames;
  }
};

// `session` runs on a GPU with SessionOptions::gpu_times, is compiled and has its inputs. Limits and load are left out.
// Fails (device).
GpuFigures measure_gpu_figures(Session& session, int64_t warmup, int64_t runs,
                               const std::function<void(double done)>& progress = {});

// Sets the load of `out`, whose facts are of the GPU that `session` runs on: one without gpu_times, which take some
// time of every run, compiled and with its inputs; `batch`: frames a run. Takes 2.5 s where NVML answers. Fails
// (device).
void measure_gpu_load(Session& session, int64_t batch, GpuFigures& out);

// Runs all sessions at the same time, `runs` times each after `warmup` runs, and sets the streams' figures of `out`.
// Each is compiled, runs on a GPU and has its inputs. Fails (device) with the first error of a session, and (user) if
// the system has no thread for each.
void measure_streams(std::vector<Session>& sessions, int64_t warmup, int64_t runs, int64_t batch, GpuFigures& out);

// The GPU that `session` runs on; null for the CPU.
std::shared_ptr<GpuDevice> gpu_of(const Session& session);

}  // namespace sparkpilot
