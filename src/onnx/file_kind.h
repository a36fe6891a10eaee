// What a file is that was given as a model and is none.
//
// Private to the room.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sparkpilot {

inline constexpr size_t kKindHead = 512;  // bytes that file_kind() looks at

// "a Python pickle", "an MPEG transport stream (video)": what a file that begins with these bytes looks like, by the
// marks that its format begins with; "a text file" where all of them are text; empty where nothing is known. Of more
// than kKindHead bytes the first are looked at. A model may begin like anything: ask only when it could not be read.
std::string file_kind(std::string_view head);

}  // namespace sparkpilot
