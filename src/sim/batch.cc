#include "sim/batch.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/parallel.h"
#include "sim/alone-inl.h"
#include "sim/batch_gpu.h"
#include "sim/batch_lanes.h"
#include "sim/batch_results.h"
#include "sim/world_fields.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

constexpr int64_t kBlock = 128;  // worlds: some 200 KB, of a second-level cache of 256 KB or more

// The memory of a block of worlds, for one thread.
template <class Control>
class Block {
 public:
  explicit Block(int64_t worlds)
      : lanes_(lane_count()),
        groups_((worlds + lanes_ - 1) / lanes_),
        constants_(aligned_numbers<float>(size(kConstants))),
        states_(aligned_numbers<float>(size(kStates))),
        rings_(aligned_numbers<float>(size(kRingSlots))) {}

  void run(std::span<const WorldSpec> specs, const BatchOptions& o, WorldResult* results) {
    const auto count = std::ssize(specs);
    const int64_t groups = (count + lanes_ - 1) / lanes_;
    bool noise = false, leads = false, rich_courses = false, tables = false, mpc = false;
    // A group that is not full computes its last world more than once.
    for (int64_t i = 0; i < groups * lanes_; ++i) {
      const WorldSpec& spec = specs[static_cast<size_t>(std::min(i, count - 1))];
      put_fields(prepare<Control>(spec, o.tyres), i, lanes_, constants_.get());
      noise |= has_noise(spec.noise);
      leads |= has_lead(spec);
      rich_courses |= is_rich(spec.course);
      tables |= spec.course.table != nullptr;
      mpc |= spec.following.planner == Planner::mpc;
    }
    if (mpc) prepare_planners(specs, groups);
    const int plans = plans_of(o.steps);
    const float* table = tables ? fill_tables(specs, groups, o.steps) : nullptr;
    advance_lanes({o.lateral, o.tyres, o.seed, o.warm_up, noise, leads, rich_courses, o.steps, plans},
                  static_cast<int>(groups),
                  {constants_.get(), states_.get(), rings_.get(), table, mpc_constants_.get(),
                   mpc ? mpc_states_.get() : nullptr});
    for (int64_t i = 0; i < count; ++i) {
      results[i] = result_of<Control>(get_fields<WorldState<double, Control>>(states_.get(), i, lanes_));
      if (specs[static_cast<size_t>(i)].following.planner != Planner::mpc) continue;
      tell_plans(get_fields<MpcPlanner<double>>(mpc_states_.get(), i, lanes_), true, results[i]);
    }
  }

 private:
  static constexpr int64_t kConstants = kFieldsOf<WorldConstants<double, Control>>;
  static constexpr int64_t kStates = kFieldsOf<WorldState<double, Control>>;

  static constexpr int64_t kMpcConstants = kFieldsOf<MpcPlannerConstants<double>>;
  static constexpr int64_t kMpcStates = kFieldsOf<MpcPlanner<double>>;

  // Of all worlds of a block in which one has the MPC.
  void prepare_planners(std::span<const WorldSpec> specs, int64_t groups) {
    if (!mpc_states_) {
      mpc_constants_ = aligned_numbers<float>(size(kMpcConstants));
      mpc_states_ = aligned_numbers<float>(size(kMpcStates));
    }
    for (int64_t i = 0; i < groups * lanes_; ++i) {
      const WorldSpec& spec = specs[static_cast<size_t>(std::min(i, std::ssize(specs) - 1))];
      put_fields(prepare_mpc(spec), i, lanes_, mpc_constants_.get());
      put_fields(beginning_mpc(spec), i, lanes_, mpc_states_.get());
    }
  }

  // Rows of all worlds, 0 for those without a table, which do not read them.
  const float* fill_tables(std::span<const WorldSpec> specs, int64_t groups, int steps) {
    tables_ = aligned_numbers<float>(groups * lanes_ * plans_of(steps) * kRowFields);
    for (int64_t i = 0; i < groups * lanes_; ++i) {
      const WorldSpec& spec = specs[static_cast<size_t>(std::min(i, std::ssize(specs) - 1))];
      if (!spec.course.table) continue;
      float* to = rows_of<CourseRow<double>>(tables_.get(), i, lanes_, plans_of(steps));
      each_course_row(spec, steps, [&](const CourseRow<double>& row) { to = put_row(row, lanes_, to); });
    }
    return tables_.get();
  }

  int64_t size(int64_t fields) const { return groups_ * lanes_ * fields; }

  const int64_t lanes_, groups_;
  AlignedNumbers<float> constants_, states_, rings_, tables_, mpc_constants_, mpc_states_;
};

template <class Control, class N>
WorldResult run_alone(const WorldSpec& spec, const BatchOptions& o) {
  const RunSettings run{o.seed, o.warm_up, has_noise(spec.noise), has_lead(spec), is_rich(spec.course)};
  const auto see = [](int, const auto&, const auto&) {};
  return run_world<N, Control>(spec, run, o.steps, o.tyres, see);
}

template <class Control>
void run_range(int64_t first, int64_t last, const std::function<WorldSpec(int64_t)>& spec, const BatchOptions& o,
               WorldResult* results) {
  std::vector<WorldSpec> specs;
  std::shared_ptr<const CourseTable> checked;
  Block<Control> block(std::min(last - first, kBlock));
  for (int64_t begin = first; begin < last; begin += kBlock) {
    specs.clear();
    for (int64_t i = begin; i < std::min(begin + kBlock, last); ++i) {
      specs.push_back(spec(i));
      check_world(specs.back(), &checked);
    }
    switch (o.number) {
      case Number::lanes: block.run(specs, o, results + begin); break;
      case Number::single:
        for (size_t i = 0; i < specs.size(); ++i)
          results[begin + static_cast<int64_t>(i)] = run_alone<Control, float>(specs[i], o);
        break;
      case Number::reference:
        for (size_t i = 0; i < specs.size(); ++i)
          results[begin + static_cast<int64_t>(i)] = run_alone<Control, double>(specs[i], o);
        break;
    }
  }
}

}  // namespace

std::vector<WorldResult> run_worlds(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                    const BatchOptions& o) {
  if (o.steps < 0 || o.steps >= 1 << 24) fail("sim: {} steps, expected 0 to {}", o.steps, (1 << 24) - 1);
  count = std::max<int64_t>(count, 0);
  if (o.gpu) return run_worlds_on_gpu(count, spec, o);
  std::vector<WorldResult> results;
  results.reserve(static_cast<size_t>(count));
  add_results(results, count);
  // In whole blocks, so that vectors are full whatever the number of threads.
  parallel_for((count + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kBlock, last = std::min(end * kBlock, count);
    with_control(o.lateral, [&]<class Control>() { run_range<Control>(first, last, spec, o, results.data()); });
  });
  return results;
}

}  // namespace sparkpilot::sim
