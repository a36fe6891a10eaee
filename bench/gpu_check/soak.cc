// One network without a pause, and what the GPU's sensors say each second, minute by minute.
#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "hw/source.h"
#include "monitor/sampler.h"
#include "networks.h"
#include "onnx/zoo.h"

namespace sparkpilot::gpu_check {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// Least, mean and most of what a sensor said; null if it said nothing.
class Range {
 public:
  template <typename T>
  void add(const std::optional<T>& value) {
    if (!value) return;
    const auto x = static_cast<double>(*value);
    least_ = count_ == 0 ? x : std::min(least_, x);
    most_ = count_ == 0 ? x : std::max(most_, x);
    sum_ += x;
    ++count_;
  }
  Json json() const {
    if (count_ == 0) return {{"min", nullptr}, {"mean", nullptr}, {"max", nullptr}};
    return {{"min", least_}, {"mean", sum_ / count_}, {"max", most_}};
  }

 private:
  double least_ = 0, most_ = 0, sum_ = 0;
  int count_ = 0;
};

struct Minute {
  int64_t runs = 0, readings = 0;
  Range temperature, clock, power, load;
  std::set<std::string> reasons;  // for which the GPU was slowed

  // Of the GPU that computes, where NVML knows it.
  void add(const monitor::Sample& sample, int ordinal) {
    ++readings;
    for (const monitor::GpuSample& gpu : sample.gpus) {
      if (gpu.gpu.cuda_index.value_or(gpu.index) != ordinal) continue;
      temperature.add(gpu.gpu.temperature_c);
      clock.add(gpu.gpu.sm_clock_mhz);
      power.add(gpu.gpu.power_w);
      load.add(gpu.gpu.gpu_percent);
      if (gpu.throttle_reasons) reasons.insert(gpu.throttle_reasons->begin(), gpu.throttle_reasons->end());
    }
  }
  Json json(double seconds) const {
    return {{"seconds", seconds},           {"runs", runs},
            {"readings", readings},         {"temperature_c", temperature.json()},
            {"sm_clock_mhz", clock.json()}, {"power_w", power.json()},
            {"gpu_percent", load.json()},   {"throttle_reasons", reasons}};
  }
};

}  // namespace

Outcome soak(const Options& options, const Json& go_on) {
  const char* const network = options.tiny ? "tiny_driving_vision" : "driving_vision";
  Ready made = ready(build_zoo_model(network), options.device(), Precision::fp16);
  made.session.run();
  const std::vector<Tensor> expected = outputs_of(made.session);
  const std::unique_ptr<Source> system = system_source();
  monitor::Sampler sampler(*system, {.processes = false});
  Outcome out;
  if (go_on.is_object() && go_on.contains("figures")) {
    out.figures = go_on["figures"];
    out.failures = go_on["failures"].get<std::vector<std::string>>();
    out.figures["pauses"].push_back(out.figures["seconds"]);
  } else {
    out.figures = {{"network", network},
                   {"precision", "fp16"},
                   {"seconds", 0.0},
                   {"pauses", Json::array()},
                   {"minutes", Json::array()}};
  }
  const auto seconds_before = out.figures["seconds"].get<double>();
  const int64_t start = now_ns();
  const int64_t end = start + static_cast<int64_t>((options.soak_minutes * 60 - seconds_before) * 1e9);
  const auto seconds = [&](int64_t now) { return seconds_before + static_cast<double>(now - start) * 1e-9; };
  Minute minute;
  int64_t next_reading = start + kSecondNs, next_minute = start + 60 * kSecondNs;
  for (bool last = false; !last;) {
    made.session.run();
    ++minute.runs;
    const int64_t now = now_ns();
    out.out_of_time = now < end && options.until - now < 2 * kSecondNs;
    last = now >= end || out.out_of_time;
    if (now < next_reading && !last) continue;
    next_reading += kSecondNs;
    minute.add(sampler.next(), options.ordinal);
    if (!same_bits(outputs_of(made.session), expected) && out.failures.empty())
      out.failures.push_back(fmt::format("other bits after {:.0f} s", seconds(now)));
    if (now < next_minute && !last) continue;
    next_minute += 60 * kSecondNs;
    out.figures["seconds"] = seconds(now);
    out.figures["minutes"].push_back(minute.json(seconds(now)));
    minute = Minute();
    const Json state{{"failures", out.failures}, {"figures", out.figures}};
    if (out.out_of_time) out.go_on = state;
    else if (!last) options.save(state, state);
  }
  return out;
}

}  // namespace sparkpilot::gpu_check
