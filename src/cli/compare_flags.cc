#include "cli/compare_flags.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace sparkpilot::cli {
namespace {

// Where a flag has an effect.
constexpr unsigned kModels = 1 << static_cast<int>(CompareMode::models);
constexpr unsigned kBisect = 1 << static_cast<int>(CompareMode::bisect);
constexpr unsigned kDrives = 1 << static_cast<int>(CompareMode::drives);
constexpr unsigned kRoute = 1 << static_cast<int>(CompareMode::route);
constexpr unsigned kFiles = kModels | kBisect, kSessions = kFiles | kRoute, kAll = kSessions | kDrives;

struct FlagUse {
  std::string_view flag;
  unsigned modes;
  std::string_view needs = {};                   // another flag, without which this one has none
  std::array<std::string_view, 2> without = {};  // those with which it has none
};

constexpr FlagUse kUses[] = {
    {"--config", kAll},
    {"--json", kAll},
    {"--quiet", kAll},
    {"--verbose", kAll},
    {"--out", kModels | kDrives | kRoute},

    {"--route", kFiles | kRoute},
    {"--frames", kFiles, "--route"},
    {"--models", kRoute},
    {"--limit", kRoute},
    {"--qcamera", kRoute},
    {"--no-wide", kRoute},
    {"--data", kFiles | kRoute, "--route"},

    {"--video", kDrives | kRoute, "--out"},
    {"--max-plan-error", kDrives | kRoute},
    {"--fields", kDrives | kRoute},
    {"--tolerances", kDrives | kRoute, "--fields"},
    {"--tolerance-scale", kDrives | kRoute, "--fields"},

    {"--adapter", kFiles},
    {"--precision", kSessions},
    {"--threads", kSessions},
    {"--device", kSessions},
    {"--memory-reserve", kSessions},
    {"--tune", kSessions},
    {"--passes", kSessions},
    {"--emulate", kSessions},

    {"--bisect", kBisect},
    {"--max-relative-l2", kFiles},
    {"--max-abs", kModels},
    {"--rounds", kModels, {}, {"--no-time", "--emulate"}},
    {"--no-time", kModels},
    {"--no-layers", kModels},
    {"--input", kFiles, {}, {"--route"}},
    {"--calibrate", kFiles},
    {"--calibration", kSessions},
    {"--fp4-activations", kSessions, "--calibration"},
    {"--samples", kFiles, {}, {"--input", "--route"}},
    {"--seed", kFiles, {}, {"--route"}},
    {"--dim", kFiles},
    {"--shape", kFiles},
    {"--output", kFiles},
    {"--peer", kFiles},
    {"--peer-timeout", kFiles, "--peer"},
};

std::string where(unsigned modes) {
  std::string out;
  for (const auto& [of, name] : {std::pair{kFiles, "model files"}, {kDrives, "drives"}, {kRoute, "--route"}}) {
    if ((modes & of) != 0) out += (out.empty() ? "" : " and ") + std::string(name);
  }
  return out;
}

void refuse(const FlagUse& use, CompareMode mode) {
  if (mode == CompareMode::bisect && (use.modes & kModels) != 0) fail("{} has no effect with --bisect", use.flag);
  if (use.modes == kRoute) fail("{} is for --route with --models DIR, which is not given", use.flag);
  const char* these = mode == CompareMode::route    ? "not for --route"
                      : mode == CompareMode::drives ? "these are drives"
                                                    : "these are models";
  fail("{} is for {}, {}", use.flag, where(use.modes), these);
}

}  // namespace

void refuse_idle_flags(CompareMode mode, const std::vector<std::string>& given) {
  const auto has = [&](std::string_view flag) { return std::find(given.begin(), given.end(), flag) != given.end(); };
  for (const std::string& flag : given) {
    const auto* use =
        std::find_if(std::begin(kUses), std::end(kUses), [&](const FlagUse& one) { return one.flag == flag; });
    if (use == std::end(kUses)) fail_internal("{}: nothing says where it has an effect", flag);
    if ((use->modes & (1U << static_cast<int>(mode))) == 0) refuse(*use, mode);
    if (!use->needs.empty() && !has(use->needs)) fail("{} is for {}, which is not given", flag, use->needs);
    for (const std::string_view other : use->without) {
      if (!other.empty() && has(other)) fail("{} has no effect with {}", flag, other);
    }
  }
}

}  // namespace sparkpilot::cli
