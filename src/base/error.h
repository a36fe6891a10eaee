// Throwing the library's one error type, with a formatted message.
#pragma once

#include <fmt/core.h>

#include <utility>

#include "sparkpilot/error.h"

namespace sparkpilot {

// Throws an Error of kind `user`: the input or its use is wrong.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::user, fmt::format(format, std::forward<Args>(args)...));
}

// Throws an Error of kind `internal`: sparkpilot itself is wrong.
template <typename... Args>
[[noreturn]] void fail_internal(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::internal, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sparkpilot
