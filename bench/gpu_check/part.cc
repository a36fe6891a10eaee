#include "part.h"

#include <dlfcn.h>

#include "base/clock.h"
#include "base/error.h"

namespace sparkpilot::gpu_check {
namespace {

constexpr Part kParts[] = {
    {"words", "instructions and conversions that kernels are made of, to the bit", true, false, check_words_part},
    {"ops", "every CUDA kernel on its op's cases, in f32, f16 and bf16, against the reference", true, true,
     check_ops_part},
    {"networks", "whole networks in fp32, fp16, bf16 and calibrated fp8 against the CPU", true, true, check_networks},
    {"training", "updates of a policy and of vision, with adapters and whole, against the CPU", true, true,
     check_trainings},
    {"worlds", "simulated worlds against the processor's, to the bit, and steps a second beside all its cores", true,
     true, check_worlds},
    {"faults", "memory, threads, both kinds of memory, allocations that are too large", true, false, check_faults},
    {"nccl", "NVIDIA's NCCL as one process of one, where it is found", true, false, check_nccl},
    {"sanitizer", "words and kernels under NVIDIA's compute-sanitizer, where it is found", true, false,
     check_by_sanitizer},
    {"limits", "speed of memory, copies and arithmetic, and the time of launches", true, false, measure_limits},
    {"bench", "networks on the GPU and on the CPU, in turns", true, true, bench_networks},
    {"peers", "networks beside other engines on the GPU, in turns, as far as they are installed", true, true,
     bench_beside_peers},
    {"soak", "sustained load, with temperature, clock and power", false, false, soak},
};

// After some errors every call of a process fails.
bool answers(int ordinal) {
  try {
    const auto gpu = GpuDevice::open(ordinal);
    GpuStream stream(gpu);
    const int64_t number = 1;
    const auto there = gpu->upload(&number, sizeof number);
    stream.wait();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::span<const Part> parts() { return kParts; }

bool Options::takes(std::string_view name) const {
  size_t begin = 0;
  for (;;) {
    const size_t end = filter.find(',', begin);
    if (name.find(std::string_view(filter).substr(begin, end - begin)) != std::string_view::npos) return true;
    if (end == std::string::npos) return false;
    begin = end + 1;
  }
}

Outcome each_of(const Options& options, const Json& go_on, const std::string& list,
                const std::vector<std::string>& items,
                const std::function<Json(size_t item, std::vector<std::string>& failures)>& work) {
  Outcome out;
  if (items.empty()) {
    out.not_run = fmt::format("nothing has \"{}\" in its name", options.filter);
    return out;
  }
  // Of the item at `next`: how many calls ended while it was at work.
  constexpr int kMostStops = 2;
  size_t next = 0;
  int stopped = 0;
  const bool same = go_on.is_object() && go_on.value("items", Json()) == Json(items);
  if (same) {
    next = go_on.value("next", size_t{0});
    out.failures = go_on.value("failures", std::vector<std::string>());
    out.figures = go_on.value("figures", Json::object());
    stopped = go_on.value("stopped", 0);
  }
  if (!out.figures.contains(list)) out.figures[list] = Json::array();
  if (stopped >= kMostStops && next < items.size()) {  // it would never be done
    out.failures.push_back(fmt::format("{}: the time of {} calls was over before it was done", items[next++], stopped));
    stopped = 0;
  }
  const size_t first = next;
  const auto state = [&](size_t from, const std::vector<std::string>& failures, int stops = 0) {
    Json out_state{{"next", from}, {"items", items}, {"failures", failures}, {"figures", out.figures}};
    if (stops > 0) out_state["stopped"] = stops;
    return out_state;
  };
  int64_t longest = 0;
  for (int64_t begin = now_ns(); next < items.size(); ++next) {
    const int64_t now = now_ns();
    if (next > first) longest = std::max(longest, now - begin);
    begin = now;
    if (next > first && now + longest > options.until) {
      out.go_on = state(next, out.failures);
      out.out_of_time = true;
      return out;
    }
    std::vector<std::string> failures = out.failures;
    failures.push_back(items[next] + ": " + kEnded);
    options.save(state(next + 1, failures), state(next, out.failures, next == first ? stopped + 1 : 1));
    failures.clear();
    try {
      Json figures = work(next, failures);
      if (!figures.is_null()) out.figures[list].push_back(std::move(figures));
    } catch (const std::exception& error) {
      failures.emplace_back(error.what());
    }
    if (failures.empty()) continue;
    const bool lost = !answers(options.ordinal);
    const size_t shown = lost ? 3 : 20;  // after the GPU is lost, everything fails
    for (size_t i = 0; i < std::min(shown, failures.size()); ++i)
      out.failures.push_back(items[next] + ": " + failures[i]);
    if (failures.size() > shown)
      out.failures.push_back(fmt::format("{}: {} more", items[next], failures.size() - shown));
    if (!lost) continue;
    out.failures.push_back(items[next] + ": the GPU answered no more; a new process went on");
    out.go_on = state(next + 1, out.failures);
    return out;
  }
  return out;
}

bool is_emulated() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library && dlsym(library, "emulated_cuda_report");
}

}  // namespace sparkpilot::gpu_check
