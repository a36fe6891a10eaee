// Where in the source an instruction of this process comes from, as its debug information tells.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/child_process.h"

namespace sparkpilot::emulator {

// Asks binutils' addr2line, one process for each file of code. Without it, or without debug information: file+0xoffset.
class SourceLines {
 public:
  // Of the call that returns to `return_address`: "conv.cu:47".
  std::string of(const void* return_address);

 private:
  std::map<std::string, std::unique_ptr<ChildProcess>> readers_;
};

}  // namespace sparkpilot::emulator
