// Several plans for one problem, a candidate's variants: what a model expects to be the fastest first, and a few that a
// tuner may find to be faster.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparkpilot::cuda {

template <typename Plan>
struct ModelledPlan {
  Plan plan;
  double cycles;
};

// `all[best]`, then the others that the model expects to take at most twice as long, the fastest first: at most two
// with the same tile, and eight in all. Every Plan has variant(), a name that differs from the others', tile, and
// direct.
template <typename Plan>
std::vector<Plan> worth_timing(std::vector<ModelledPlan<Plan>> all, size_t best) {
  constexpr size_t kMost = 8;
  constexpr std::ptrdiff_t kMostOfATile = 2;
  std::vector<Plan> out{all[best].plan};
  const double most = 2 * all[best].cycles;
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(best));
  std::ranges::stable_sort(all, {}, &ModelledPlan<Plan>::cycles);
  for (const ModelledPlan<Plan>& other : all) {
    if (out.size() == kMost || !(other.cycles <= most)) break;
    const auto same = std::ranges::count_if(
        out, [&](const Plan& plan) { return plan.tile == other.plan.tile && plan.direct == other.plan.direct; });
    if (same < kMostOfATile) out.push_back(other.plan);
  }
  return out;
}

// How many warps of a block share a row of weights, or the keys of a query.
struct WarpPlan {
  int warps = 1;
  std::string variant() const { return warps == 1 ? "1 warp" : std::to_string(warps) + " warps"; }
};
// `best`, half and twice as many, from 1 to `most`.
inline std::vector<WarpPlan> warp_plans(int best, int most) {
  std::vector<WarpPlan> out{{best}};
  if (2 * best <= most) out.push_back({2 * best});
  if (best > 1) out.push_back({best / 2});
  return out;
}

template <typename Plan>
std::vector<std::string> variants_of(const std::vector<Plan>& plans) {
  std::vector<std::string> out;
  for (const Plan& plan : plans) out.push_back(plan.variant());
  return out;
}
// The plan of that name, or the first.
template <typename Plan>
const Plan& plan_of(const std::vector<Plan>& plans, std::string_view variant) {
  const auto found = std::ranges::find_if(plans, [&](const Plan& plan) { return plan.variant() == variant; });
  return found == plans.end() ? plans.front() : *found;
}

// "64x64", "64x64 in 4 parts"
inline std::string tile_variant(int rows, int columns, int parts) {
  std::string out = std::to_string(rows) + "x" + std::to_string(columns);
  if (parts > 1) out += " in " + std::to_string(parts) + " parts";
  return out;
}

}  // namespace sparkpilot::cuda
