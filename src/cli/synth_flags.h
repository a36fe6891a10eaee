// The words for what synthetic roads look like, the same in every command that makes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "route/synth/world.h"

namespace sparkpilot::cli {

// "any" and the kinds of roads; "any" and the kinds of light.
std::vector<std::string> road_words();
std::vector<std::string> light_words();

// What a word names; nothing for "any". Fail (user) with the words that there are.
std::optional<drive::synth::RoadKind> road_of(const std::string& word);
std::optional<drive::synth::Light> light_of(const std::string& word);

// "rural,winding" as its kinds, and "any" as none. Fails (user) likewise, and if one is there twice.
std::vector<drive::synth::RoadKind> roads_of(const std::string& list);

}  // namespace sparkpilot::cli
