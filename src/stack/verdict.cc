#include "stack/verdict.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot::stack {
namespace {

// How far a container's best image serves.
Fit best_fit(const CodeMix& mix, ComputeCapability gpu) {
  Fit best = Fit::none;
  for (const CodeTarget& target : mix.targets) best = std::max(best, fit(target, gpu));
  return best;
}

void count(const GpuCode& code, ComputeCapability gpu, Verdict& verdict) {
  for (const CodeMix& mix : code.mixes) {
    switch (best_fit(mix, gpu)) {
      case Fit::native: verdict.native += mix.containers; break;
      case Fit::family: verdict.family += mix.containers; break;
      case Fit::jit: verdict.jit += mix.containers; break;
      case Fit::none: verdict.none += mix.containers; break;
    }
  }
}

// The driver compiles the PTX of the highest architecture that it may use.
int64_t bytes_to_compile(const GpuCode& code, ComputeCapability gpu) {
  int highest = 0;
  for (const CodeGroup& group : code.groups) {
    if (fit(group.target, gpu) == Fit::jit) highest = std::max(highest, group.target.number);
  }
  int64_t bytes = 0;
  for (const CodeGroup& group : code.groups) {
    if (group.target.number == highest && fit(group.target, gpu) == Fit::jit) bytes += group.unpacked_bytes;
  }
  return bytes;
}

std::string megabytes(int64_t bytes) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  return megabytes < 0.1 ? "less than 0.1 MB" : fmt::format("{:.1f} MB", megabytes);
}

// The closest machine code, for the sentence about it.
std::string nearest(const GpuCode& code, ComputeCapability gpu) {
  const CodeTarget* best = nullptr;
  for (const CodeGroup& group : code.groups) {
    if (fit(group.target, gpu) == Fit::family && (!best || *best < group.target)) best = &group.target;
  }
  return best ? best->str() : std::string();
}

bool compiles_for(const Library& library, ComputeCapability gpu) {
  const int number = gpu.major * 10 + gpu.minor;
  return std::any_of(library.compiles_for.begin(), library.compiles_for.end(),
                     [&](const CodeTarget& target) { return target.number == number; });
}

void judge_code(const Library& library, ComputeCapability gpu, Verdict& verdict) {
  const GpuCode& code = library.code;
  count(code, gpu, verdict);
  if (verdict.native > 0 && verdict.native >= verdict.family) {
    verdict.standing = Standing::native;
  } else if (verdict.family > 0) {
    verdict.standing = Standing::family;
    verdict.cost = fmt::format("runs code made for {}, nothing tuned for {}", nearest(code, gpu), text_of(gpu));
  } else if (verdict.jit > 0) {
    verdict.standing = Standing::jit;
    verdict.jit_bytes = bytes_to_compile(code, gpu);
    verdict.cost = fmt::format("{} of PTX compiled by the driver at first use, kept in ~/.nv/ComputeCache",
                               megabytes(verdict.jit_bytes));
  } else {
    verdict.standing = Standing::none;
    verdict.cost = "none of its GPU code runs (\"no kernel image is available\")";
  }
}

}  // namespace

std::string_view name_of(Standing standing) {
  switch (standing) {
    case Standing::native: return "native";
    case Standing::family: return "family";
    case Standing::jit: return "JIT";
    case Standing::none: return "none";
    case Standing::compiles: return "compiles";
    case Standing::too_old: return "too old";
    case Standing::no_gpu_code: return "no GPU code";
    case Standing::wrong_machine: return "wrong machine";
    case Standing::unreadable: break;
  }
  return "unreadable";
}

Verdict judge(const Library& library, ComputeCapability gpu, std::string_view machine) {
  Verdict verdict;
  if (!library.trouble.empty()) {
    verdict.standing = Standing::unreadable;
    verdict.cost = library.trouble;
    return verdict;
  }
  if (!library.code.empty()) judge_code(library, gpu, verdict);
  if (!library.compiles_for.empty()) {
    const bool able = compiles_for(library, gpu);
    verdict.standing = able ? Standing::compiles : Standing::too_old;
    verdict.cost = able ? "" : fmt::format("cannot make code for {}", text_of(gpu));
  }
  if (!machine.empty() && library.machine != machine) {
    verdict.standing = Standing::wrong_machine;
    verdict.cost = fmt::format("made for {}, does not load on {}", library.machine, machine);
  }
  return verdict;
}

}  // namespace sparkpilot::stack
