#include "cli/synth_flags.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "cli/command.h"
#include "cli/variants.h"

namespace sparkpilot::cli {
namespace {

using drive::synth::kRoadKinds;
using drive::synth::Light;
using drive::synth::RoadKind;

constexpr std::array<std::string_view, 4> kLights{"day", "overcast", "dusk", "night"};

template <size_t N>
std::vector<std::string> with_any(const std::array<std::string_view, N>& names) {
  std::vector<std::string> words{"any"};
  words.insert(words.end(), names.begin(), names.end());
  return words;
}

// The place of a word among those after "any".
std::optional<size_t> place_of(const std::string& flag, const std::string& word,
                               const std::vector<std::string>& words) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) fail("{}: {}", flag, no_choice(word, words));
  if (found == words.begin()) return {};
  return static_cast<size_t>(found - words.begin()) - 1;
}

}  // namespace

std::vector<std::string> road_words() { return with_any(kRoadKinds); }
std::vector<std::string> light_words() { return with_any(kLights); }

std::optional<RoadKind> road_of(const std::string& word) {
  const auto place = place_of("--road", word, road_words());
  return place ? std::optional(static_cast<RoadKind>(*place)) : std::nullopt;
}

std::optional<Light> light_of(const std::string& word) {
  const auto place = place_of("--light", word, light_words());
  return place ? std::optional(static_cast<Light>(*place)) : std::nullopt;
}

std::vector<RoadKind> roads_of(const std::string& list) {
  std::vector<RoadKind> kinds;
  if (list == "any") return kinds;
  for (const std::string& word : split_list(list, "--road")) {
    const auto kind = road_of(word);
    if (!kind) fail("--road {}: any cannot be one of several", list);
    kinds.push_back(*kind);
  }
  return kinds;
}

}  // namespace sparkpilot::cli
