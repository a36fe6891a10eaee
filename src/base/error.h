// Throwing the library's one error type, with a formatted message.
#pragma once

#include <fmt/core.h>

#include "sparkpilot/error.h"

namespace sparkpilot {

// Formatting is compiled once here, not once in each file that can fail.
[[noreturn]] void throw_error(ErrorKind kind, fmt::string_view format, fmt::format_args args);

// Throws an Error of kind `user`: the input or its use is wrong.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw_error(ErrorKind::user, format, fmt::make_format_args(args...));
}

// Throws an Error of kind `internal`: a bug in sparkpilot.
template <typename... Args>
[[noreturn]] void fail_internal(fmt::format_string<Args...> format, Args&&... args) {
  throw_error(ErrorKind::internal, format, fmt::make_format_args(args...));
}

}  // namespace sparkpilot
