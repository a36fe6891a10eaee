// The error for well-formed models that need what sparkpilot does not support.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace sparkpilot {

// An op that is not in the table, a sequence, a string tensor. The message says which.
class Unsupported final : public Error {
 public:
  explicit Unsupported(const std::string& message) : Error(ErrorKind::user, message) {}
};

// To be called in a catch block: throws the same error with `before` and `after` around its message.
[[noreturn]] inline void rethrow_within(std::string_view before, std::string_view after = {}) {
  try {
    throw;
  } catch (const Unsupported& error) {
    throw Unsupported(fmt::format("{}{}{}", before, error.what(), after));
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}{}{}", before, error.what(), after));
  }
}

}  // namespace sparkpilot
