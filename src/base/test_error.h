// For tests: what an error says.
#pragma once

#include <string>

#include "base/error.h"

namespace sparkpilot {

// The message of the Error that `work` throws; empty if it throws none.
template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace sparkpilot
