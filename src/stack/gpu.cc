#include "stack/gpu.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/error.h"

namespace sparkpilot::stack {
namespace {

struct Prefix {
  CodeKind kind;
  std::string_view text;
};
constexpr std::array kPrefixes{Prefix{CodeKind::sass, "sm_"}, Prefix{CodeKind::ptx, "compute_"},
                               Prefix{CodeKind::lto, "lto_"}, Prefix{CodeKind::other, "other_"}};

// The capabilities of boards with integrated GPUs, whose code is not compatible with others of the same major version.
bool stands_alone(int number) {
  constexpr std::array kAlone{53, 62, 72, 87, 101, 110};
  return std::find(kAlone.begin(), kAlone.end(), number) != kAlone.end();
}

// Removes the digits at the front of `text` and returns them; empty if there are none or too many.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > 9999 || end == text.data()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

struct KnownGpu {
  std::string_view name;
  ComputeCapability capability;
  std::string_view machine;
};
// Names without blanks, "nvidia", "geforce" and "dgx". A name stands for all names that begin with it.
constexpr std::array kGpus{
    KnownGpu{"gb10", {12, 1}, "aarch64"}, KnownGpu{"spark", {12, 1}, "aarch64"},
    KnownGpu{"rtxpro", {12, 0}, ""},      KnownGpu{"rtx50", {12, 0}, ""},
    KnownGpu{"thor", {11, 0}, "aarch64"}, KnownGpu{"gb300", {10, 3}, "aarch64"},
    KnownGpu{"b300", {10, 3}, ""},        KnownGpu{"gb200", {10, 0}, "aarch64"},
    KnownGpu{"b200", {10, 0}, ""},        KnownGpu{"b100", {10, 0}, ""},
    KnownGpu{"gh200", {9, 0}, "aarch64"}, KnownGpu{"h200", {9, 0}, ""},
    KnownGpu{"h100", {9, 0}, ""},         KnownGpu{"h20", {9, 0}, ""},
    KnownGpu{"rtx40", {8, 9}, ""},        KnownGpu{"l40", {8, 9}, ""},
    KnownGpu{"l4", {8, 9}, ""},           KnownGpu{"orin", {8, 7}, "aarch64"},
    KnownGpu{"rtx30", {8, 6}, ""},        KnownGpu{"a40", {8, 6}, ""},
    KnownGpu{"a10", {8, 6}, ""},          KnownGpu{"a100", {8, 0}, ""},
    KnownGpu{"a30", {8, 0}, ""},          KnownGpu{"rtx20", {7, 5}, ""},
    KnownGpu{"t4", {7, 5}, ""},           KnownGpu{"v100", {7, 0}, ""},
};

std::string plain_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '.') {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (const std::string_view word : {"nvidia", "geforce", "dgx"}) {
    if (const size_t at = name.find(word); at != std::string::npos) name.erase(at, word.size());
  }
  return name;
}

// "12.1", "121", "sm_121" and the like.
std::optional<ComputeCapability> numbered(std::string_view text) {
  for (const std::string_view prefix : {"sm_", "compute_", "sm", "cc"}) {
    if (text.starts_with(prefix)) {
      text.remove_prefix(prefix.size());
      break;
    }
  }
  const auto first = take_number(text);
  if (!first) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const auto minor = take_number(text);
    if (!minor || !text.empty() || *minor > 9) return std::nullopt;
    return ComputeCapability{*first, *minor};
  }
  if (text == "a" || text == "f") text = {};
  if (!text.empty() || *first < 20) return std::nullopt;
  return ComputeCapability{*first / 10, *first % 10};
}

}  // namespace

std::string text_of(ComputeCapability capability) { return fmt::format("{}.{}", capability.major, capability.minor); }

std::string CodeTarget::str() const {
  const auto prefix = std::find_if(kPrefixes.begin(), kPrefixes.end(), [&](const Prefix& p) { return p.kind == kind; });
  std::string text = fmt::format("{}{}", prefix->text, number);
  if (suffix) text += suffix;
  return text;
}

std::optional<CodeTarget> parse_target(std::string_view text) {
  for (const Prefix& prefix : kPrefixes) {
    if (!text.starts_with(prefix.text)) continue;
    text.remove_prefix(prefix.text.size());
    const auto number = take_number(text);
    if (!number || text.size() > 1 || (text.size() == 1 && text != "a" && text != "f")) return std::nullopt;
    return CodeTarget{prefix.kind, *number, text.empty() ? '\0' : text[0]};
  }
  return std::nullopt;
}

Fit fit(const CodeTarget& code, ComputeCapability gpu) {
  if (code.kind != CodeKind::sass && code.kind != CodeKind::ptx) return Fit::none;
  const int number = gpu.major * 10 + gpu.minor;
  const bool exact = code.number == number;
  const bool related = code.number / 10 == gpu.major && code.number <= number &&
                       (exact || (!stands_alone(code.number) && !stands_alone(number)));
  if (code.kind == CodeKind::ptx) {
    const bool compiles = code.suffix == 'a' ? exact : code.suffix == 'f' ? related : code.number <= number;
    return compiles ? Fit::jit : Fit::none;
  }
  if (code.suffix == 'f') return related ? Fit::family : Fit::none;
  if (exact) return Fit::native;
  return related && code.suffix == '\0' ? Fit::family : Fit::none;
}

NamedGpu parse_gpu(std::string_view text) {
  if (const auto capability = numbered(text)) return {std::string(text), *capability, ""};
  const std::string name = plain_name(text);
  // The longest match: "a100" is not an "a10".
  const KnownGpu* best = nullptr;
  for (const KnownGpu& gpu : kGpus) {
    if (name.starts_with(gpu.name) && (!best || gpu.name.size() > best->name.size())) best = &gpu;
  }
  if (!best) {
    std::string known;
    for (const KnownGpu& gpu : kGpus) known += (known.empty() ? "" : ", ") + std::string(gpu.name);
    fail("no GPU is known as \"{}\"; give its compute capability (12.1), or one of {}", text, known);
  }
  return {std::string(text), best->capability, std::string(best->machine)};
}

}  // namespace sparkpilot::stack
