#include "runtime/kernel_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest.h"

namespace sparkpilot {
namespace {

// All candidates by name, in all ops or in one; empty where no op has that name.
std::vector<std::string> kernels_of(std::string_view op) {
  std::set<std::string> names;
  for (const OpDef* each : all_ops()) {
    if (!op.empty() && qualified(*each) != op) continue;
    for (const Kernel& kernel : each->cpu) names.emplace(kernel.name);
  }
  return {names.begin(), names.end()};
}

void check(std::string_view op, std::string_view kernel, bool off) {
  const std::vector<std::string> known = kernels_of(op);
  if (known.empty()) fail("no op \"{}\" has kernels", op);
  if (std::find(known.begin(), known.end(), kernel) == known.end()) {
    fail("no kernel{}{} is named \"{}\"{}; there are {}", op.empty() ? "" : " of ", op, kernel,
         did_you_mean(kernel, known), fmt::join(known, ", "));
  }
  if (off && kernel == "reference") fail("the kernel \"reference\" takes what no other does and stays");
}

Verdict accepts(const Kernel& kernel, const Problem& problem) {
  return kernel.accepts ? kernel.accepts(problem) : Verdict(true);
}

}  // namespace

KernelChoice::KernelChoice(std::string_view text) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const bool off = item.starts_with("no-");
    if (off) item.remove_prefix(3);
    const size_t slash = item.rfind('/');
    const std::string_view op = slash == std::string_view::npos ? std::string_view{} : item.substr(0, slash);
    const std::string_view kernel = slash == std::string_view::npos ? item : item.substr(slash + 1);
    check(op, kernel, off);
    rules_.push_back({std::string(op), std::string(kernel), off});
  }
}

bool KernelChoice::rules(const OpDef& op, std::string_view kernel, bool off) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return rule.off == off && rule.kernel == kernel && (rule.op.empty() || rule.op == qualified(op));
  });
}

// Whether the candidate of that name may be taken and accepts.
bool KernelChoice::is_free(const Problem& problem, std::string_view name) const {
  const OpDef& op = *problem.node->op;
  return std::any_of(op.cpu.begin(), op.cpu.end(), [&](const Kernel& kernel) {
    return kernel.name == name && !rules(op, name, true) && accepts(kernel, problem);
  });
}

KernelChoice::Taken KernelChoice::take(const Problem& problem) const {
  const OpDef& op = *problem.node->op;
  const bool wished = std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return !rule.off; });
  size_t taken = op.cpu.size();
  std::vector<std::string> reasons;
  for (size_t i = 0; i < op.cpu.size(); ++i) {
    const Kernel& kernel = op.cpu[i];
    reasons.emplace_back("switched off");
    if (rules(op, kernel.name, true)) continue;
    const Verdict verdict = accepts(kernel, problem);
    reasons.back() = verdict.reason();
    if (!verdict) continue;
    if (rules(op, kernel.name, false)) {
      taken = i;
      break;
    }
    reasons.back() = "another is asked for";
    const std::string_view faster = kernel.yields ? kernel.yields(problem) : std::string_view{};
    if (!faster.empty() && is_free(problem, faster)) reasons.back() = fmt::format("{} is faster at this shape", faster);
    else taken = std::min(taken, i);
    if (!wished && taken == i) break;
  }
  Taken out;
  if (taken < op.cpu.size()) out.kernel = &op.cpu[taken];
  for (size_t i = 0; i < taken && i < reasons.size(); ++i) {
    out.declined.push_back({std::string(op.cpu[i].name), std::move(reasons[i])});
  }
  return out;
}

}  // namespace sparkpilot
