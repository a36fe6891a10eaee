#include "monitor/summary.h"

#include <algorithm>

namespace sparkpilot::monitor {

void EnergyMeter::add(const Sample& sample) {
  for (const GpuSample& gpu : sample.gpus) {
    Of& of = gpus_[gpu.index];
    if (gpu.energy_j) {
      if (!of.first_j || *gpu.energy_j < *of.last_j) {  // the first value, or the driver was reloaded
        of.first_j = gpu.energy_j;
        of.first_s = sample.seconds;
      }
      of.last_j = gpu.energy_j;
      of.last_s = sample.seconds;
    }
    const double seconds = sample.seconds - of.before_s;
    if (of.power_w && gpu.gpu.power_w && seconds > 0) {
      of.integrated_j += (*of.power_w + *gpu.gpu.power_w) / 2 * seconds;
      of.integrated_s += seconds;
    }
    of.power_w = gpu.gpu.power_w;
    of.before_s = sample.seconds;
  }
}

std::vector<EnergyMeter::Energy> EnergyMeter::energy() const {
  std::vector<Energy> out;
  for (const auto& [gpu, of] : gpus_) {
    // A counter that did not move while power was drawn does not count as one.
    const double counted = of.first_j ? *of.last_j - *of.first_j : 0;
    if (counted > 0 && of.last_s - of.first_s >= of.integrated_s) {
      out.push_back({gpu, counted, of.last_s - of.first_s, true});
    } else if (of.integrated_s > 0) {
      out.push_back({gpu, of.integrated_j, of.integrated_s, false});
    } else {
      out.push_back({gpu, std::nullopt, 0, false});
    }
  }
  return out;
}

void Series::add(double value) {
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  sum_ += value;
  if (count_++ % stride_ != 0) return;
  kept_.push_back(value);
  if (kept_.size() < kKept) return;
  for (size_t i = 0; i < kept_.size() / 2; ++i) kept_[i] = kept_[2 * i];
  kept_.resize(kept_.size() / 2);
  stride_ *= 2;
}

Statistics Series::statistics() const {
  Statistics out = summarize(kept_);
  out.count = count_;
  out.mean = count_ > 0 ? sum_ / static_cast<double>(count_) : 0;
  out.min = min_;
  out.max = max_;
  return out;
}

void Summary::add(const Sample& sample) {
  ++samples_;
  seconds_ = std::max(seconds_, sample.seconds);
  energy_.add(sample);
  size_t order = 0;
  for (Quantity& quantity : quantities(sample)) {
    ++order;
    constexpr size_t kMaxColumns = 4096;
    if (!quantity.value || quantity.fixed || quantity.unit == Unit::joules) continue;
    const double value = *quantity.value;
    const std::string column = quantity.column();
    auto found = columns_.find(column);
    if (found == columns_.end()) {
      if (columns_.size() >= kMaxColumns) continue;
      found = columns_.emplace(column, Of{order, std::move(quantity), {}}).first;
    }
    found->second.series.add(value);
  }
}

std::vector<Summary::Row> Summary::rows() const {
  std::vector<const Of*> sorted;
  for (const auto& [column, of] : columns_) sorted.push_back(&of);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Of* a, const Of* b) { return a->order < b->order; });
  std::vector<Row> out;
  for (const Of* of : sorted) out.push_back({of->quantity, of->series.statistics()});
  return out;
}

}  // namespace sparkpilot::monitor
