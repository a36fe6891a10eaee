// The one error type of the library.
//
// Every failure that a caller can meet is an Error. Its message is one line that says what was expected
// and what came, and names the file, node or tensor: `conv: input has 12 channels, weight expects 6 (node
// "/stem/Conv")`.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace sparkpilot {

enum class ErrorKind {
  user,      // bad usage or bad input: exit code 2
  internal,  // a fault of ours: exit code 1
  device,    // the accelerator or its driver: exit code 3
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

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
