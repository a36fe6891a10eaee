#include "sim/batch_gpu.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cuda/images.h"
#include "ops/cuda/worlds.h"
#include "sim/alone-inl.h"
#include "sim/batch_results.h"
#include "sim/gpu_memory.h"
#include "sim/world_fields.h"
#include "tensor/gpu.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;  // NOLINT(google-build-using-namespace): what stands in it depends on the number type
using cuda::kWorldsOfGroup;

// Worlds that are computed together, and how many such parts at a time: as many threads as the largest GPUs hold. Fewer
// in runs of minutes, so that tables of all of them take no more than this.
constexpr int64_t kPart = 16384, kMostTableBytes = int64_t{2} << 30;
constexpr size_t kParts = 4;

int64_t worlds_of_part(int steps) {
  const int64_t of_world = std::max(plans_of(steps), 1) * kRowFields * int64_t{sizeof(float)};
  const int64_t worlds = kMostTableBytes / (of_world * static_cast<int64_t>(kParts));
  return std::clamp(worlds / kWorldsOfGroup * kWorldsOfGroup, int64_t{kWorldsOfGroup}, kPart);
}

std::string kernel_name(const BatchOptions& o) {
  return fmt::format("worlds_{}_{}", kLateralNames[static_cast<int>(o.lateral)],
                     kTyresNames[static_cast<int>(o.tyres)]);
}

// Tables of those worlds that have one, each [row][field], in pieces of memory: few worlds of many may have one.
class Tables {
 public:
  Tables(GpuDevice& gpu, int rows) : gpu_(gpu), bytes_(int64_t{rows} * kRowFields * int64_t{sizeof(float)}) {}
  void clear() { used_ = 0; }
  bool empty() const { return used_ == 0; }
  // Memory for one: `host` to be filled, and where it will be on the GPU. Several threads may call.
  struct Slot {
    float* host;
    const float* gpu;
  };
  Slot add() {
    const std::lock_guard lock(mutex_);
    const int64_t at = used_ % kOfPiece * bytes_;
    const auto piece = static_cast<size_t>(used_++ / kOfPiece);
    if (piece == pieces_.size()) pieces_.push_back(on_both_sides(gpu_, kOfPiece * bytes_));
    const TwoSides& memory = pieces_[piece];
    return {reinterpret_cast<float*>(memory.host->data() + at), reinterpret_cast<float*>(memory.gpu->data() + at)};
  }
  void send_to(GpuStream& stream) const {
    for (int64_t first = 0; first < used_; first += kOfPiece)
      send(stream, pieces_[static_cast<size_t>(first / kOfPiece)], std::min(kOfPiece, used_ - first) * bytes_);
  }

 private:
  static constexpr int64_t kOfPiece = 512;
  GpuDevice& gpu_;
  int64_t bytes_, used_ = 0;
  std::mutex mutex_;
  std::vector<TwoSides> pieces_;
};

// What some world of many has.
struct AnyWorld {
  bool noise = false, leads = false, rich_courses = false;
};

// The memory of a part, on both sides, and its stream.
template <class Control>
class Part {
 public:
  Part(const std::shared_ptr<GpuDevice>& gpu, int64_t most, int steps)
      : stream_(gpu),
        most_((most + kWorldsOfGroup - 1) / kWorldsOfGroup * kWorldsOfGroup),
        constants_(on_both_sides(*gpu, most_ * kConstants * kFloat)),
        states_(on_both_sides(*gpu, most_ * kStates * kFloat)),
        table_of_world_(on_both_sides(*gpu, most_ * int64_t{sizeof(float*)})),
        rings_(gpu->allocate_kept(most_ * kRingSlots * kFloat, gpu->own_place())),
        tables_(*gpu, plans_of(steps)) {}

  void begin(int64_t first, int64_t count, const std::function<WorldSpec(int64_t)>& spec, const BatchOptions& o) {
    first_ = first, count_ = count;
    const AnyWorld any = prepare_worlds(spec, o);
    const auto bytes = [&](int64_t fields) { return groups() * kWorldsOfGroup * fields * kFloat; };
    send(stream_, constants_, bytes(kConstants));
    const float* const* tables = nullptr;
    if (!tables_.empty()) {
      tables = reinterpret_cast<const float* const*>(table_of_world_.gpu->data());
      send(stream_, table_of_world_, groups() * kWorldsOfGroup * int64_t{sizeof(float*)});
      tables_.send_to(stream_);
    }
    const cuda::WorldsArguments arguments{.constants = floats(*constants_.gpu),
                                          .states = floats(*states_.gpu),
                                          .rings = floats(*rings_),
                                          .seed = o.seed,
                                          .groups = static_cast<int>(groups()),
                                          .steps = o.steps,
                                          .warm_up = o.warm_up,
                                          .noise = any.noise,
                                          .leads = any.leads,
                                          .rich_courses = any.rich_courses,
                                          .tables = tables};
    stream_.launch(cuda::kernel_on(stream_.gpu(), kernel_name(o)), cuda::worlds_launch(arguments.groups), arguments);
    if (states_.host != states_.gpu) stream_.copy_to_host(floats(*states_.host), states_.gpu->data(), bytes(kStates));
  }

  // Waits for what was begun, and appends it to `results`, which hold those of all worlds before it.
  void finish(std::vector<WorldResult>& results) {
    add_results(results, count_);
    stream_.wait();
    parallel_for(count_, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        results[static_cast<size_t>(first_ + i)] =
            result_of<Control>(get_fields<WorldState<double, Control>>(floats(*states_.host), i, kWorldsOfGroup));
      }
    });
  }

 private:
  static constexpr int64_t kFloat = sizeof(float);
  static constexpr int64_t kConstants = kFieldsOf<WorldConstants<double, Control>>;
  static constexpr int64_t kStates = kFieldsOf<WorldState<double, Control>>;
  static float* floats(Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
  int64_t groups() const { return (count_ + kWorldsOfGroup - 1) / kWorldsOfGroup; }

  AnyWorld prepare_worlds(const std::function<WorldSpec(int64_t)>& spec, const BatchOptions& o) {
    std::atomic<bool> noise = false, leads = false, rich_courses = false;
    auto* const constants = floats(*constants_.host);
    auto** const table_of_world = reinterpret_cast<const float**>(table_of_world_.host->data());
    tables_.clear();
    parallel_for(groups(), 1, [&](int64_t begin, int64_t end) {
      AnyWorld any;  // of this thread: what all write to at each world costs more than the worlds
      std::shared_ptr<const CourseTable> checked;
      for (int64_t i = begin * kWorldsOfGroup; i < std::min(end * kWorldsOfGroup, count_); ++i) {
        const WorldSpec world = spec(first_ + i);
        check_world(world, &checked);
        if (const auto why = not_on_gpu(o.lateral, world.following.planner); !why.empty()) fail("{}", why);
        const float* table = nullptr;
        if (world.course.table) {
          const Tables::Slot slot = tables_.add();
          float* to = slot.host;
          each_course_row(world, o.steps, [&](const CourseRow<double>& row) { to = put_row(row, 1, to); });
          table = slot.gpu;
        }
        const auto k = prepare<Control>(world, o.tyres);
        // A group that is not full computes its last world more than once.
        for (int64_t to = i; to < (i + 1 == count_ ? groups() * kWorldsOfGroup : i + 1); ++to) {
          put_fields(k, to, kWorldsOfGroup, constants);
          table_of_world[to] = table;
        }
        any.noise |= has_noise(world.noise);
        any.leads |= has_lead(world);
        any.rich_courses |= is_rich(world.course);
      }
      if (any.noise) noise = true;
      if (any.leads) leads = true;
      if (any.rich_courses) rich_courses = true;
    });
    return {noise, leads, rich_courses};
  }

  GpuStream stream_;
  int64_t most_, first_ = 0, count_ = 0;
  TwoSides constants_, states_, table_of_world_;
  std::shared_ptr<Buffer> rings_;
  Tables tables_;
  const WaitAtEnd wait_{stream_};
};

// The processor prepares a part while the GPU computes those before it.
template <class Control>
std::vector<WorldResult> run_parts(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                   const BatchOptions& o) {
  std::vector<WorldResult> results;
  results.reserve(static_cast<size_t>(count));
  const int64_t most = worlds_of_part(o.steps);
  std::deque<std::unique_ptr<Part<Control>>> begun;
  for (int64_t first = 0; first < count; first += most) {
    std::unique_ptr<Part<Control>> next;
    if (begun.size() == kParts) {
      next = std::move(begun.front());
      begun.pop_front();
      next->finish(results);
    } else {
      next = std::make_unique<Part<Control>>(o.gpu, std::min(count, most), o.steps);
    }
    next->begin(first, std::min(most, count - first), spec, o);
    begun.push_back(std::move(next));
  }
  for (const auto& part : begun) part->finish(results);
  return results;
}

}  // namespace

std::vector<WorldResult> run_worlds_on_gpu(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                           const BatchOptions& o) {
  return with_control(o.lateral, [&]<class Control>() { return run_parts<Control>(count, spec, o); });
}

}  // namespace sparkpilot::sim
