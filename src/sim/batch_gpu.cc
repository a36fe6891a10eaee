#include "sim/batch_gpu.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cuda/images.h"
#include "ops/cuda/worlds.h"
#include "sim/alone-inl.h"
#include "sim/world_fields.h"
#include "tensor/gpu.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;  // NOLINT(google-build-using-namespace): what stands in it depends on the number type
using cuda::kWorldsOfGroup;

// Worlds that are computed together: as many threads as the largest GPUs hold at a time.
constexpr int64_t kPart = 65536;

std::string kernel_name(const BatchOptions& o) {
  return fmt::format("worlds_{}_{}", kLateralNames[static_cast<int>(o.lateral)],
                     kTyresNames[static_cast<int>(o.tyres)]);
}

// The memory of a part, on both sides, and its stream.
template <class Control>
class Part {
 public:
  Part(const std::shared_ptr<GpuDevice>& gpu, int64_t most)
      : stream_(gpu), most_groups_((most + kWorldsOfGroup - 1) / kWorldsOfGroup) {
    constants_ = memory(kConstants, gpu->shared_place());
    states_ = memory(kStates, gpu->shared_place());
    gpu_constants_ = gpu->unified() ? constants_ : memory(kConstants, Place::device);
    gpu_states_ = gpu->unified() ? states_ : memory(kStates, Place::device);
    rings_ = memory(kRingSlots, gpu->own_place());
  }
  // What the GPU still does here may not outlive the memory.
  ~Part() {
    try {
      stream_.wait();
    } catch (const Error&) {
    }
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  void begin(int64_t first, int64_t count, const std::function<WorldSpec(int64_t)>& spec, const BatchOptions& o) {
    first_ = first, count_ = count;
    const int64_t groups = (count + kWorldsOfGroup - 1) / kWorldsOfGroup;
    std::atomic<bool> noise = false, leads = false, rich_courses = false, tables = false;
    auto* const constants = floats(*constants_);
    auto* const states = floats(*states_);
    parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * kWorldsOfGroup; i < std::min(end * kWorldsOfGroup, count); ++i) {
        const WorldSpec world = spec(first + i);
        check_world(world);
        if (const auto why = not_on_gpu(o.lateral, world.following.planner); !why.empty()) fail("{}", why);
        // A group that is not full computes its last world more than once.
        for (int64_t to = i; to < (i + 1 == count ? groups * kWorldsOfGroup : i + 1); ++to) {
          put_fields(prepare<Control>(world), to, kWorldsOfGroup, constants);
          put_fields(beginning<Control>(world), to, kWorldsOfGroup, states);
        }
        if (has_noise(world.noise)) noise = true;
        if (has_lead(world)) leads = true;
        if (is_rich(world.course)) rich_courses = true;
        if (!world.course.table) continue;
        tables = true;
        const auto rows = course_rows(world, o.steps);
        put_rows(rows, i, kWorldsOfGroup, table_memory(std::ssize(rows)));
      }
    });
    const auto bytes = [&](int64_t fields) { return groups * kWorldsOfGroup * fields * kFloat; };
    const bool unified = stream_.gpu().unified();
    if (!unified) {
      stream_.copy_to_gpu(gpu_constants_->data(), constants, bytes(kConstants));
      stream_.copy_to_gpu(gpu_states_->data(), states, bytes(kStates));
    }
    stream_.fill(rings_->data(), 0, bytes(kRingSlots));
    if (tables && !unified)
      stream_.copy_to_gpu(gpu_tables_->data(), floats(*tables_), bytes(plans_of(o.steps) * kRowFields));
    const cuda::WorldsArguments arguments{.constants = floats(*gpu_constants_),
                                          .states = floats(*gpu_states_),
                                          .rings = floats(*rings_),
                                          .seed = o.seed,
                                          .groups = static_cast<int>(groups),
                                          .first = 0,
                                          .last = o.steps,
                                          .warm_up = o.warm_up,
                                          .noise = noise,
                                          .leads = leads,
                                          .rich_courses = rich_courses,
                                          .tables = tables ? floats(*gpu_tables_) : nullptr,
                                          .plans = plans_of(o.steps)};
    stream_.launch(cuda::kernel_on(stream_.gpu(), kernel_name(o)), cuda::worlds_launch(arguments.groups), arguments);
    if (!unified) stream_.copy_to_host(states, gpu_states_->data(), bytes(kStates));
  }

  // Waits for what was begun, and fetches it.
  void finish(WorldResult* results) {
    stream_.wait();
    parallel_for(count_, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        results[first_ + i] =
            result_of<Control>(get_fields<WorldState<double, Control>>(floats(*states_), i, kWorldsOfGroup));
      }
    });
  }

 private:
  static constexpr int64_t kFloat = sizeof(float);
  static constexpr int64_t kConstants = kFieldsOf<WorldConstants<double, Control>>;
  static constexpr int64_t kStates = kFieldsOf<WorldState<double, Control>>;
  static float* floats(Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

  std::shared_ptr<Buffer> memory(int64_t fields, Place place) {
    return stream_.gpu().allocate(most_groups_ * kWorldsOfGroup * fields * kFloat, place);
  }
  // Made for the first world that has a table.
  float* table_memory(int64_t rows) {
    const std::lock_guard lock(tables_mutex_);
    if (!tables_) {
      tables_ = memory(rows * kRowFields, stream_.gpu().shared_place());
      gpu_tables_ = stream_.gpu().unified() ? tables_ : memory(rows * kRowFields, Place::device);
    }
    return floats(*tables_);
  }

  GpuStream stream_;
  std::mutex tables_mutex_;
  int64_t most_groups_, first_ = 0, count_ = 0;
  std::shared_ptr<Buffer> constants_, states_, gpu_constants_, gpu_states_, rings_, tables_, gpu_tables_;
};

// Two parts in turns: the processor prepares one while the GPU computes the other.
template <class Control>
void run_parts(int64_t count, const std::function<WorldSpec(int64_t)>& spec, const BatchOptions& o,
               WorldResult* results) {
  std::unique_ptr<Part<Control>> now, next;
  for (int64_t first = 0; first < count; first += kPart) {
    if (!next) next = std::make_unique<Part<Control>>(o.gpu, std::min(count, kPart));
    next->begin(first, std::min(kPart, count - first), spec, o);
    if (now) now->finish(results);
    std::swap(now, next);
  }
  if (now) now->finish(results);
}

}  // namespace

std::vector<WorldResult> run_worlds_on_gpu(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                           const BatchOptions& o) {
  std::vector<WorldResult> results(static_cast<size_t>(count));
  if (count == 0) return results;
  with_control(o.lateral, [&]<class Control>() { run_parts<Control>(count, spec, o, results.data()); });
  return results;
}

}  // namespace sparkpilot::sim
