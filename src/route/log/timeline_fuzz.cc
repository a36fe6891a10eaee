// Any bytes as the log of a segment to be driven: the timeline read from it, the path, the plan's errors, a comparison.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "route/log/driven_path.h"
#include "route/log/model_compare.h"
#include "route/log/plan_error.h"
#include "route/log/reader.h"
#include "route/log/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot::drive;
  try {
    LogReader reader(memory_source({reinterpret_cast<const std::byte*>(data), size}), "fuzz");
    const Timeline timeline = read_timeline(reader, {.events = 200});
    std::vector<sparkpilot::drive::FrameResult> frames;
    for (const ModelRecord& model : timeline.models) {
      frames.emplace_back();
      frames.back().frame_id = model.frame_id;
    }
    const std::optional<DrivenPath> path = DrivenPath::from(timeline);
    add_plan_errors(frames, timeline.models, timeline.models, timeline, path);
    const auto errors = summarize_errors(frames, true);
    if (errors.size() != kHorizons) __builtin_trap();
    const ModelComparison same = compare_models(timeline.models, timeline.models);
    if (!timeline.models.empty() && !same.ok()) __builtin_trap();
  } catch (const sparkpilot::Error& error) {
    if (error.kind() != sparkpilot::ErrorKind::user) __builtin_trap();
  }
  return 0;
}
