// Recognises files that were given as a model but are not one.
//
// Private to the room.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sparkpilot {

inline constexpr size_t kKindHead = 512;  // bytes that file_kind() examines

// "a Python pickle", "an MPEG transport stream (video)": what a file that begins with these bytes looks like, by its
// format's signature; "a text file" if all of them are text; empty if unknown. Only the first kKindHead bytes are
// examined. A model may begin with any bytes: ask only after it could not be read.
std::string file_kind(std::string_view head);

}  // namespace sparkpilot
