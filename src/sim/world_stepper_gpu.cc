#include "sim/world_stepper_gpu.h"

#include <cstring>

#include "base/parallel.h"
#include "ops/cuda/images.h"
#include "ops/cuda/worlds.h"
#include "sim/batch_gpu.h"
#include "sim/gpu_memory.h"
#include "sim/stepped_worlds-inl.h"
#include "tensor/gpu.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;  // NOLINT(google-build-using-namespace): what stands in it depends on the number type
using cuda::kWorldsOfGroup;

template <class Control>
class GpuWorlds final : public SteppedWorlds {
 public:
  GpuWorlds(const std::shared_ptr<GpuDevice>& gpu, int64_t count, const StepperOptions& o)
      : SteppedWorlds(count, o),
        stream_(gpu),
        kernel_(cuda::kernel_on(*gpu, Control::kTorque ? "stepped_worlds_torque" : "stepped_worlds_angle")),
        put_(cuda::kernel_on(*gpu, "put_worlds")),
        groups_((count + kWorldsOfGroup - 1) / kWorldsOfGroup),
        inputs_(on_both_sides(*gpu, bytes(kInputs))),
        seen_(on_both_sides(*gpu, bytes(kSeen))),
        states_(gpu->allocate_kept(bytes(kStates), gpu->own_place())),
        constants_(gpu->allocate_kept(bytes(kConstants), gpu->own_place())),
        rings_(gpu->allocate_kept(bytes(kRingSlots), gpu->own_place())),
        others_(static_cast<size_t>(count)) {
    // The places behind the last world are computed, too.
    stream_.fill(inputs_.gpu->data(), 0, bytes(kInputs));
    stream_.fill(states_->data(), 0, bytes(kStates));
    stream_.fill(constants_->data(), 0, bytes(kConstants));
    stream_.fill(rings_->data(), 0, bytes(kRingSlots));
    stream_.wait();
    if (inputs_.host != inputs_.gpu) std::memset(inputs_.host->data(), 0, static_cast<size_t>(bytes(kInputs)));
    std::memset(seen_.host->data(), 0, static_cast<size_t>(bytes(kSeen)));
  }
  void reset(const uint8_t* mask, const std::function<WorldSpec(int64_t)>& spec) override {
    check_sound();
    std::vector<int32_t> worlds;
    for (int64_t i = 0; i < count_; ++i) {
      if (!mask || mask[i]) worlds.push_back(static_cast<int32_t>(i));
    }
    constexpr int64_t kAtOnce = 16384;
    for (size_t first = 0; first < worlds.size(); first += kAtOnce)
      begin_worlds(std::span(worlds).subspan(first, std::min<size_t>(kAtOnce, worlds.size() - first)), spec);
  }

  void step(const float* commands, int steps, float* observations, float* costs) override {
    check_sound();
    check_step(commands, steps);
    cuda::SteppedWorldsArguments p{.inputs = floats(*inputs_.gpu),
                                   .constants = floats(*constants_),
                                   .states = floats(*states_),
                                   .rings = floats(*rings_),
                                   .seen = floats(*seen_.gpu),
                                   .seed = options.seed,
                                   .groups = static_cast<int>(groups_),
                                   .tyres = static_cast<int>(options.tyres),
                                   .longitudinal = options.longitudinal};
    for (const OtherOfWorld& other : others_) {
      p.noise |= other.noise ? 1 : 0;
      p.leads |= other.lead ? 1 : 0;
      p.rich_courses |= other.rich ? 1 : 0;
      p.tables |= other.table ? 1 : 0;
    }
    broken_ = true;  // unless all of it works
    host_states_.clear();
    // No world plans twice in a launch.
    for (int done = 0; done < steps; done += p.steps) {
      p.steps = std::min(steps - done, kStepsPerPlan);
      p.first = done == 0;
      p.last = done + p.steps == steps;
      p.slot = static_cast<int>((slot_ + int64_t{done}) % kSlots);
      if (done > 0) stream_.wait();  // the inputs are read until then
      parallel_for(count_, 64, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          put_fields<float>(input<float>(others_[static_cast<size_t>(i)], i, commands, done, p.steps), i,
                            kWorldsOfGroup, floats(*inputs_.host));
        }
      });
      send(stream_, inputs_, bytes(kInputs));
      stream_.launch(kernel_, cuda::worlds_launch(p.groups), p);
    }
    if (seen_.host != seen_.gpu) stream_.copy_to_host(seen_.host->data(), seen_.gpu->data(), bytes(kSeen));
    stream_.wait();
    broken_ = false;
    slot_ = static_cast<int>((slot_ + int64_t{steps}) % kSlots);
    parallel_for(count_, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        steps_[static_cast<size_t>(i)] += steps;
        if (observations) write_observations(i, seen(i, kFeatures), observations + i * kObservedNumbers);
        if (costs) write_costs(seen(i, kCosts), steps, costs + i * kOutsideCosts);
      }
    });
  }

  void observe(float* out, const uint8_t* mask) const override {
    parallel_for(count_, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (!mask || mask[i]) write_observations(i, seen(i, kFeatures), out + i * kObservedNumbers);
      }
    });
  }

  bool diverged(int64_t i) const override { return seen(i, kAlive)(0) < 0.5f; }
  bool collided(int64_t i) const override { return seen(i, kCollided)(0) > 0.5f; }
  WorldResult result(int64_t i) const override { return outside_result<Control>(state(i), steps(i)); }
  std::array<double, kTraceColumns> trace_row(int64_t i) const override {
    const std::vector<float> constants = copied(*constants_, kConstants);
    return scalar::trace_row(
        steps(i) - 1, get_fields<WorldConstants<double, Control>>(constants.data(), i, kWorldsOfGroup), state(i));
  }

 private:
  using Seen = SteppedNumbers<float>;
  static constexpr int64_t kFloat = sizeof(float);
  static constexpr int64_t kInputs = kFieldsOf<OutsideInput<float>, float>;
  static constexpr int64_t kConstants = kFieldsOf<WorldConstants<float, Control>, float>;
  static constexpr int64_t kStates = kFieldsOf<WorldState<float, Control>, float>;
  static constexpr int64_t kSeen = kFieldsOf<Seen, float>;
  static constexpr int64_t kFeatures = offsetof(Seen, features) / kFloat, kCosts = offsetof(Seen, costs) / kFloat;
  static constexpr int64_t kAlive = offsetof(Seen, alive) / kFloat, kCollided = offsetof(Seen, collided) / kFloat;

  static float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(const_cast<Buffer&>(buffer).data()); }
  int64_t bytes(int64_t fields) const { return groups_ * kWorldsOfGroup * fields * kFloat; }
  // A call that failed on the GPU may have moved some worlds: nothing that comes after it would be right.
  void check_sound() const {
    if (broken_) throw Error(ErrorKind::device, "sim: the GPU failed in an earlier call: these worlds cannot go on");
  }
  std::vector<float> copied(const Buffer& from, int64_t fields) const {
    std::vector<float> to(static_cast<size_t>(groups_ * kWorldsOfGroup * fields));
    stream_.copy_to_host(to.data(), floats(from), bytes(fields));
    stream_.wait();
    return to;
  }
  // What is seen of a world, from a field on.
  auto seen(int64_t world, int64_t field) const {
    const float* const from =
        floats(*seen_.host) + (world / kWorldsOfGroup * kSeen + field) * kWorldsOfGroup + world % kWorldsOfGroup;
    return [from](int f) { return from[f * kWorldsOfGroup]; };
  }
  WorldState<double, Control> state(int64_t world) const {
    if (host_states_.empty()) host_states_ = copied(*states_, kStates);
    return get_fields<WorldState<double, Control>>(host_states_.data(), world, kWorldsOfGroup);
  }

  void begin_worlds(std::span<const int32_t> worlds, const std::function<WorldSpec(int64_t)>& spec) {
    const auto count = std::ssize(worlds);
    const auto room = [&](int64_t fields) { return on_both_sides(stream_.gpu(), count * fields * kFloat); };
    const TwoSides places = room(1), constants = room(kConstants), states = room(kStates), rings = room(kRingSlots);
    const WaitAtEnd wait(stream_);
    std::memcpy(places.host->data(), worlds.data(), worlds.size_bytes());
    std::vector<OtherOfWorld> others(worlds.size());
    std::vector<Seen> shown(worlds.size());
    parallel_for(count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto at = static_cast<size_t>(row);
        const WorldSpec world = spec(worlds[at]);
        if (const auto why = not_on_gpu(Lateral::torque, world.following.planner); !why.empty()) fail("{}", why);
        const auto begun = begin_outside<float, Control>(world, options, others[at], [](const auto&) {});
        put_fields<float>(begun.constants, row, 1, floats(*constants.host));
        put_fields<float>(begun.state, row, 1, floats(*states.host));
        put_fields<float>(begun.slots, row, 1, floats(*rings.host));
        std::copy_n(begun.features.numbers, kOutsideFeatures, shown[at].features);
        shown[at].alive = begun.state.metrics.alive;
        shown[at].collided = begun.state.metrics.collided;
      }
    });
    broken_ = true;  // unless all of it works
    host_states_.clear();
    send(stream_, places, count * kFloat);
    send(stream_, constants, count * kConstants * kFloat);
    send(stream_, states, count * kStates * kFloat);
    send(stream_, rings, count * kRingSlots * kFloat);
    const auto put = [&](const TwoSides& rows, const Buffer& to, int64_t fields) {
      const cuda::PutWorldsArguments p{.rows = floats(*rows.gpu),
                                       .world = reinterpret_cast<const int*>(places.gpu->data()),
                                       .to = floats(to),
                                       .count = static_cast<int>(count),
                                       .fields = static_cast<int>(fields)};
      stream_.launch(put_, cuda::put_worlds_launch(p), p);
    };
    put(constants, *constants_, kConstants);
    put(states, *states_, kStates);
    put(rings, *rings_, kRingSlots);
    stream_.wait();
    for (size_t row = 0; row < worlds.size(); ++row) {
      others_[static_cast<size_t>(worlds[row])] = std::move(others[row]);
      put_fields<float>(shown[row], worlds[row], kWorldsOfGroup, floats(*seen_.host));
      steps_[static_cast<size_t>(worlds[row])] = 0;
    }
    broken_ = false;
  }

  mutable GpuStream stream_;
  const GpuFunction &kernel_, &put_;
  const int64_t groups_;
  TwoSides inputs_, seen_;
  std::shared_ptr<Buffer> states_, constants_, rings_;
  std::vector<OtherOfWorld> others_;
  mutable std::vector<float> host_states_;  // a copy of states_, made when it is asked for; empty where those are newer
  int slot_ = 0;                            // of the rings, for all worlds
  bool broken_ = false;
  const WaitAtEnd wait_{stream_};
};

}  // namespace

StepperPlace worlds_on_gpu(std::shared_ptr<GpuDevice> gpu) {
  return [gpu = std::move(gpu)](int64_t count, const StepperOptions& o) -> std::unique_ptr<SteppedWorlds> {
    if (o.torque) return std::make_unique<GpuWorlds<LateralOutside<true>>>(gpu, count, o);
    return std::make_unique<GpuWorlds<LateralOutside<false>>>(gpu, count, o);
  };
}

}  // namespace sparkpilot::sim
