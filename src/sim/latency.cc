#include "sim/latency.h"

#include <cmath>
#include <vector>

#include "base/clock.h"
#include "base/statistics.h"
#include "sim/prepare.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

template <class Control>
UpdateLatency latency_of(const WorldSpec& world) {
  constexpr int kUpdates = 20000, kFirst = 1000;
  const WorldConstants<double, Control> k = prepare<Control>(world, Tyres::linear);
  typename Control::template State<double> state{};
  double slots[kRequests] = {};
  const Ring<double, kRequests> requests{slots, 1};
  std::vector<double> times;
  [[maybe_unused]] volatile double taken = 0;  // so that the update is computed
  for (int step = 0; step < kFirst + kUpdates; ++step) {
    const double phase = step * 0.01;
    const LateralInput<double> in{0.002 * std::sin(phase),
                                  20 + 5 * std::cos(phase),
                                  10 * std::sin(phase - 0.1),
                                  0,
                                  0.01,
                                  k.delay_frames,
                                  true,
                                  false,
                                  false,
                                  false};
    bool saturated = false;
    const int64_t begin = now_ns();
    taken = Control::update(k.lateral, k.car, in, requests, step, state, saturated);
    const int64_t end = now_ns();
    if (step >= kFirst) times.push_back(static_cast<double>(end - begin) * 1e-3);
  }
  const Statistics all = summarize(times);
  return {all.p50, all.p99};
}

}  // namespace

UpdateLatency update_latency(Lateral lateral, const WorldSpec& world) {
  return with_control(lateral, [&]<class Control>() { return latency_of<Control>(world); });
}

}  // namespace sparkpilot::sim
