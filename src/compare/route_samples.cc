#include "compare/route_samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace sparkpilot::compare {
namespace {

// `count` of them, at equal distances from the first on.
std::vector<Tensor> evenly(std::vector<Tensor> all, size_t count) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < count; ++i) out.push_back(std::move(all[i * all.size() / count]));
  return out;
}

template <typename Do>
void for_each_input(std::map<std::string, Samples>& samples, const Do& do_it) {
  for (auto& [network, of] : samples) {
    for (auto& [name, kept] : of.inputs) do_it(kept);
  }
}

}  // namespace

std::map<std::string, Samples> samples_of_route(const drive::Route& route, drive::DriveOptions run, int64_t count,
                                                const std::function<void(int64_t, int64_t)>& progress) {
  std::map<std::string, Samples> samples;
  const ScratchFolder folder;
  drive::Route first = route;
  const auto with_video = std::ranges::find_if(route.segments, [](const drive::Segment& segment) {
    return !segment.road_video.empty() || !segment.qcamera.empty();
  });
  first.segments = {with_video == route.segments.end() ? route.segments.at(0) : *with_video};
  run.models.driver_monitoring.clear();
  run.out = folder.path();
  run.overlay = run.raw = run.resume = false;
  run.dump.clear();
  run.note = nullptr;
  run.progress = [&](const drive::DriveProgress& p) {
    if (progress) progress(p.frame, p.frames);
  };
  // How many frames there will be is not known: every `stride`th is kept, and where that is twice what was asked for,
  // every second of these.
  const auto most = static_cast<size_t>(2 * count);
  int64_t step = 0, stride = 1;
  run.stepped = [&](drive::DrivingModel& model) {
    if (step++ % stride != 0) return;
    bool full = false;
    for (const auto& [network, name, value] : model.inputs()) {
      std::vector<Tensor>& kept = samples[network].inputs[name];
      kept.push_back(copy_of(value));
      full = kept.size() == most;
    }
    if (!full) return;
    for_each_input(samples, [&](std::vector<Tensor>& kept) {
      const size_t half = kept.size() / 2;
      kept = evenly(std::move(kept), half);
    });
    stride *= 2;
  };
  drive::drive_route(first, run);
  for_each_input(samples, [&](std::vector<Tensor>& kept) {
    if (std::ssize(kept) > count) kept = evenly(std::move(kept), static_cast<size_t>(count));
  });
  for (auto& [network, of] : samples) of.count = of.inputs.begin()->second.size();
  const bool stopped = run.stop != nullptr && run.stop->load();
  if (samples.empty() && !stopped) fail("{}: no frame to calibrate on", route.name);
  return samples;
}

}  // namespace sparkpilot::compare
