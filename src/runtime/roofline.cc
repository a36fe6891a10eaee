#include "runtime/roofline.h"

#include <algorithm>
#include <map>

namespace sparkpilot {
namespace {

Arithmetic arithmetic_of(DType products) {
  if (products == DType::i8) return Arithmetic::i8;
  if (products == DType::f16) return Arithmetic::f16;
  return products == DType::bf16 ? Arithmetic::bf16 : Arithmetic::f32;
}

// The bytes in use at once: the slices of a call run on all threads at the same time, each in separate memory.
double held_at_once(double bytes, const NodeProfile& node, int threads) {
  return node.slices > 1 ? bytes / node.slices * std::min<double>(threads, node.slices) : bytes;
}

double model_weights(const Profile& profile) {
  double sum = 0;
  for (const NodeProfile& node : profile.nodes) sum += node.calls > 0 ? node.weight_bytes / node.slices : 0;
  return sum;
}

// The part of `bytes` that is not found in caches that hold `held` bytes, when `set` bytes are accessed in a cycle.
double behind(double bytes, double set, double held) { return set > held ? bytes * (1 - held / set) : 0; }

}  // namespace

NodeLimit limit_of(const NodeProfile& node, double model_weight_bytes, const Peak& peak) {
  NodeLimit limit;
  const auto take = [&](double work, double rate, const std::string& name) {
    if (rate <= 0 || work / rate * 1e9 <= limit.ns) return;
    limit = {work / rate * 1e9, name};
  };
  const UnitPeak& unit = peak.unit(arithmetic_of(node.products));
  take(node.flops * node.needed, unit.flops_per_second, unit.name);
  const double activations = node.bytes - node.weight_bytes;
  const double weight_set = held_at_once(model_weight_bytes * node.slices, node, peak.threads);
  const double activation_set = held_at_once(activations, node, peak.threads);
  double held = 0;
  for (const LevelPeak& level : peak.levels) {
    const double weights = behind(node.weight_bytes * node.needed, weight_set, held);
    take(weights, level.reads_per_second, level.name);
    take(weights + behind(activations, activation_set, held), level.bytes_per_second, level.name);
    held += level.bytes;
  }
  return limit;
}

double working_set(const Profile& profile) {
  double set = model_weights(profile);
  for (const NodeProfile& node : profile.nodes) set = std::max(set, (node.bytes - node.weight_bytes) / node.slices);
  return set;
}

Roofline set_roofline(Profile& profile, const Peak& peak) {
  const double weights = model_weights(profile);
  double limit_sum = 0, time_sum = 0;
  std::map<std::string, double> parts;
  for (NodeProfile& node : profile.nodes) {
    const NodeLimit limit = limit_of(node, weights, peak);
    node.roofline_share = node.mean_ns() > 0 ? limit.ns / node.mean_ns() : 0;
    node.roofline_limit = limit.by;
    if (node.calls == 0) continue;
    parts[limit.by] += limit.ns;
    limit_sum += limit.ns;
    time_sum += node.mean_ns();
  }
  Roofline out{.share = time_sum > 0 ? limit_sum / time_sum : 0};
  double most = 0;
  for (const auto& [by, ns] : parts) {
    if (ns > most) most = ns, out.by = by;
  }
  return out;
}

}  // namespace sparkpilot
