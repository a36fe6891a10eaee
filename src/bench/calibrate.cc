#include "bench/calibrate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sparkpilot {
namespace {

// Calls fn for each output tensor of the session, over all samples.
template <typename Fn>
void visit(Session& session, const Samples& samples, double from, double to,
           const std::function<void(double)>& progress, const Fn& fn) {
  for (size_t i = 0; i < samples.count; ++i) {
    progress(from + (to - from) * static_cast<double>(i) / static_cast<double>(samples.count));
    set_sample(session, samples, i);
    session.run();
    for (const TensorInfo& output : session.outputs()) {
      const ConstView view = session.output(output.name);
      if (view.dtype == DType::f32) fn(output.name, std::span(view.as<float>(), static_cast<size_t>(view.elements())));
    }
  }
}

}  // namespace

CalibrationMethod calibration_method(std::string_view name) {
  if (name == "min-max") return CalibrationMethod::min_max;
  if (name == "percentile") return CalibrationMethod::percentile;
  if (name == "entropy") return CalibrationMethod::entropy;
  fail("no calibration method is named \"{}\"", name);
}

void Histogram::add(std::span<const float> values) {
  const double width = (high - low) / static_cast<double>(kBins);
  if (!(width > 0)) return;
  for (const float v : values) {
    const double at = (static_cast<double>(v) - low) / width;
    if (std::isnan(at)) continue;
    counts[static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(kBins - 1)))] += 1;
  }
}

ValueRange percentile_range(const Histogram& h, double percentile) {
  double total = 0;
  for (const double count : h.counts) total += count;
  if (total == 0) return {h.low, h.high};
  // A range that begins or ends at 0 (after a Relu) is only cut at its other end.
  const bool lower = h.low<0, upper = h.high> 0;
  const double cut = total * (1 - percentile / 100) / (lower && upper ? 2 : 1);
  const double width = (h.high - h.low) / static_cast<double>(Histogram::kBins);
  size_t first = 0, last = Histogram::kBins;
  double below = 0, above = 0;
  while (lower && first + 1 < last && below + h.counts[first] <= cut) below += h.counts[first++];
  while (upper && last > first + 1 && above + h.counts[last - 1] <= cut) above += h.counts[--last];
  return {h.low + static_cast<double>(first) * width, h.low + static_cast<double>(last) * width};
}

ValueRange entropy_range(const Histogram& h) {
  // As many bins as a byte has values, and half as many steps: finer bins would only measure how peaked the
  // distribution is.
  constexpr int kRanges = 64, kSteps = 128;
  constexpr size_t kBins = 256, kMerged = Histogram::kBins / kBins;
  std::vector<double> counts(kBins);
  double total = 0;
  for (size_t i = 0; i < Histogram::kBins; ++i) {
    counts[i / kMerged] += h.counts[i];
    total += h.counts[i];
  }
  if (total == 0) return {h.low, h.high};
  const double width = (h.high - h.low) / static_cast<double>(kBins);
  ValueRange best{h.low, h.high};
  double least = std::numeric_limits<double>::infinity();
  for (int r = 0; r < kRanges; ++r) {
    const double share = 1 - 0.5 * r / kRanges;
    const double low = std::min(h.low, 0.0) * share, high = std::max(h.high, 0.0) * share;
    // P: the histogram, with the values outside counted in the end bins. Q: the same in kSteps steps, each spread over
    // its non-empty bins.
    std::vector<double> p(kBins), step_sum(kSteps), step_filled(kSteps);
    const auto bin_of = [&](double v) {
      return static_cast<size_t>(std::clamp((v - h.low) / width, 0.0, static_cast<double>(kBins - 1)));
    };
    const auto step_of = [&](double v) {
      return static_cast<size_t>(std::clamp((v - low) / (high - low) * kSteps, 0.0, kSteps - 1.0));
    };
    const size_t first = bin_of(low), last = bin_of(high);
    for (size_t i = 0; i < kBins; ++i) {
      p[std::clamp(i, first, last)] += counts[i];
      if (i < first || i > last || counts[i] == 0) continue;
      const size_t step = step_of(h.low + (static_cast<double>(i) + 0.5) * width);
      step_sum[step] += counts[i];
      step_filled[step] += 1;
    }
    double divergence = 0, kept = 0;
    for (const double sum : step_sum) kept += sum;
    if (kept == 0) break;
    for (size_t i = first; i <= last; ++i) {
      if (p[i] == 0) continue;
      const size_t step = step_of(h.low + (static_cast<double>(i) + 0.5) * width);
      const double q = counts[i] == 0 ? 1e-9 : step_sum[step] / step_filled[step] / kept;
      divergence += p[i] / total * std::log(p[i] / total / q);
    }
    if (divergence < least) {
      least = divergence;
      best = {low, high};
    }
  }
  return best;
}

std::map<std::string, ValueRange> calibrate(Session& session, const Samples& samples, const CalibrationOptions& options,
                                            const std::function<void(double)>& progress,
                                            const std::function<std::string(const std::string&)>& label) {
  if (!(options.percentile > 50 && options.percentile <= 100)) {
    fail("percentile {}: expected more than 50 and at most 100", options.percentile);
  }
  std::map<std::string, ValueRange> ranges;
  const bool once = options.method == CalibrationMethod::min_max;
  visit(session, samples, 0, once ? 1 : 0.5, progress, [&](const std::string& tensor, std::span<const float> values) {
    ValueRange& range = ranges[tensor];
    for (const float v : values) {
      if (!std::isfinite(v)) {
        fail("cannot be calibrated on these samples: \"{}\" becomes {}", label ? label(tensor) : tensor, v);
      }
      range.low = std::min(range.low, static_cast<double>(v));
      range.high = std::max(range.high, static_cast<double>(v));
    }
  });
  if (once) return ranges;
  std::map<std::string, Histogram> histograms;
  for (const auto& [tensor, range] : ranges) {
    histograms[tensor].low = range.low;
    histograms[tensor].high = range.high;
  }
  visit(session, samples, 0.5, 1, progress,
        [&](const std::string& tensor, std::span<const float> values) { histograms[tensor].add(values); });
  for (auto& [tensor, range] : ranges) {
    const Histogram& h = histograms[tensor];
    range = options.method == CalibrationMethod::entropy ? entropy_range(h) : percentile_range(h, options.percentile);
  }
  return ranges;
}

}  // namespace sparkpilot
