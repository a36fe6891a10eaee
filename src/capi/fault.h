// What C functions tell of an exception: which kind, and a line.
#pragma once

#include <exception>
#include <new>

#include "base/error.h"

namespace sparkpilot::capi {

struct Fault {
  int kind;  // as in the headers and the program's exit code: 1 internal, 2 input, 3 device
  const char* text;
};

// The text lives as long as the exception.
inline Fault fault_of(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    switch (error->kind()) {
      case ErrorKind::user: return {2, error->what()};
      case ErrorKind::device: return {3, error->what()};
      case ErrorKind::internal: break;
    }
  }
  if (dynamic_cast<const std::bad_alloc*>(&exception)) return {2, "out of memory"};
  return {1, exception.what()};
}

}  // namespace sparkpilot::capi
