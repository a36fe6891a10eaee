// The one error type of the library.
//
// Every failure that a caller can meet is an Error. Its message is one line that says what was expected and what was
// found, and names the file, node or tensor: `conv: input has 12 channels, weight expects 6 (node "/stem/Conv")`.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace sparkpilot {

enum class ErrorKind {
  user,      // bad usage or bad input: exit code 2
  internal,  // a bug in sparkpilot: exit code 1
  device,    // the accelerator or its driver: exit code 3
};

// The text as one printable line of valid UTF-8.
std::string one_line(std::string_view text);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(one_line(message)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace sparkpilot
