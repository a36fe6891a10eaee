// The limits of this process's control groups, of both versions. `read` gives the text of a file of /proc or /sys,
// which may be any bytes; empty if it cannot be read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sparkpilot {

using ReadText = std::function<std::optional<std::string>(const std::string& path)>;

// What their limits leave of memory, in bytes. Empty if none limits it.
std::optional<int64_t> group_memory_left(const ReadText& read);
// How many processors' time they allow, such as 1.5. Empty if none limits it.
std::optional<double> group_processors(const ReadText& read);

}  // namespace sparkpilot
