#include "ir/kernel_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "ir/problem_key.h"

namespace sparkpilot {
namespace {

// Names of all candidates, of all ops or of one; empty if no op has that name.
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

Acceptance accepts(const Kernel& kernel, const Problem& problem) {
  return kernel.accepts ? kernel.accepts(problem) : Acceptance(true);
}

std::vector<std::string> variants(const Kernel& kernel, const Problem& problem) {
  return kernel.variants ? kernel.variants(problem) : std::vector<std::string>();
}

}  // namespace

std::string_view name(ChosenBy by) {
  switch (by) {
    case ChosenBy::rules: return "rules";
    case ChosenBy::asked: return "asked";
    case ChosenBy::measured: return "measured";
    case ChosenBy::restored: break;
  }
  return "restored";
}

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

// Whether the candidate of that name is not switched off and accepts.
bool KernelChoice::is_free(const Problem& problem, Device device, std::string_view name) const {
  const OpDef& op = *problem.node->op;
  const std::span<const Kernel> candidates = kernels(op, device);
  return std::any_of(candidates.begin(), candidates.end(), [&](const Kernel& kernel) {
    return kernel.name == name && !rules(op, name, true) && accepts(kernel, problem);
  });
}

KernelChoice KernelChoice::only(std::string_view kernel) {
  KernelChoice choice;
  choice.only_ = kernel;
  return choice;
}

void KernelChoice::know(const std::string& key, std::string_view kernel, ChosenBy by) {
  const auto [at, fresh] = known_.try_emplace(key);
  if (!fresh && at->second.by == ChosenBy::restored && by != ChosenBy::restored) return;
  at->second = {std::string(kernel), by};
}

const KernelChoice::Known* KernelChoice::known(const std::string& key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

// False if nothing is known, or the known kernel does not accept; `out` then says why.
bool KernelChoice::take_known(const Problem& problem, Device device, Taken& out) const {
  const Known* known = this->known(out.decision.node);
  if (!known) return false;
  const std::span<const Kernel> candidates = kernels(*problem.node->op, device);
  const size_t space = std::min(known->kernel.find(' '), known->kernel.size());
  const std::string_view text = known->kernel, kernel = text.substr(0, space),
                         variant = text.substr(std::min(space + 1, text.size()));
  std::string refusal = "is no kernel of this op";
  auto at = candidates.begin();
  for (; at != candidates.end(); ++at) {
    if (at->name != kernel) continue;
    const Acceptance verdict = accepts(*at, problem);
    const std::vector<std::string> all = verdict ? variants(*at, problem) : std::vector<std::string>();
    const auto found = std::find(all.begin(), all.end(), variant);
    if (verdict && (variant.empty() || found != all.end())) {
      if (found != all.begin()) out.variant = variant;
      break;
    }
    if (verdict) refusal = "is not one of the kernel's variants here";
    else refusal = verdict.reason().empty() ? "does not accept" : "does not accept: " + verdict.reason();
  }
  const bool restored = known->by == ChosenBy::restored;
  if (at == candidates.end()) {
    if (restored) out.decision.note = fmt::format("{} {}", one_line(known->kernel.substr(0, 40)), refusal);
    return false;
  }
  out.kernel = &*at;
  out.decision.by = known->by;
  for (auto before = candidates.begin(); before != at; ++before) {
    const Acceptance verdict = accepts(*before, problem);
    const std::string preferred = std::string(at->name) + (restored ? " was chosen before" : " was faster here");
    out.declined.push_back({std::string(before->name), verdict ? preferred : verdict.reason()});
  }
  return true;
}

void KernelChoice::take_by_rules(const Problem& problem, Device device, Taken& out) const {
  const OpDef& op = *problem.node->op;
  const std::span<const Kernel> candidates = kernels(op, device);
  const bool wished = std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return !rule.off; });
  size_t taken = candidates.size();
  std::vector<std::string> reasons;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Kernel& kernel = candidates[i];
    reasons.emplace_back();
    if (!only_.empty() && kernel.name != only_) continue;
    reasons.back() = "switched off";
    if (rules(op, kernel.name, true)) continue;
    const Acceptance verdict = accepts(kernel, problem);
    reasons.back() = verdict.reason();
    if (!verdict) continue;
    if (!only_.empty() || rules(op, kernel.name, false)) {
      taken = i;
      if (only_.empty()) out.decision.by = ChosenBy::asked;
      break;
    }
    reasons.back() = "another is asked for";
    const std::string_view faster = kernel.yields ? kernel.yields(problem) : std::string_view{};
    if (!faster.empty() && is_free(problem, device, faster))
      reasons.back() = fmt::format("{} is faster at this shape", faster);
    else taken = std::min(taken, i);
    if (!wished && taken == i) break;
  }
  if (taken < candidates.size()) out.kernel = &candidates[taken];
  for (size_t i = 0; i < taken && i < reasons.size(); ++i) {
    out.declined.push_back({std::string(candidates[i].name), std::move(reasons[i])});
  }
}

KernelChoice::Taken KernelChoice::take(const Problem& problem, Device device) const {
  Taken out;
  const bool open = only_.empty() && has_alternatives(*problem.node->op, device);
  if (open) out.decision.node = problem_key(problem);
  if (!open || !rules_.empty() || !take_known(problem, device, out)) take_by_rules(problem, device, out);
  if (!out.kernel) return out;
  out.decision.kernel = out.kernel->name;
  if (device == Device::cpu || !open) return out;
  const std::vector<std::string> all = variants(*out.kernel, problem);
  if (all.size() > 1) out.decision.kernel += " " + (out.variant.empty() ? all.front() : out.variant);
  else if (out.decision.note.empty()) out.decision.node.clear();
  return out;
}

}  // namespace sparkpilot
