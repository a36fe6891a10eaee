// The program started once more, with its own command line.
#pragma once

#include <string>
#include <vector>

namespace sparkpilot::cli {

struct ChildResult {
  int code = 0;  // exit code; 128 + the signal if one ended it
  std::string out, err;
};

// Starts this program with the words of its own command line and `words` after the command's name, its first word, and
// waits for it. It reads `input` from stdin. Fails (internal) if the system does not let it.
ChildResult run_again(const std::vector<std::string>& words, const std::string& input);

}  // namespace sparkpilot::cli
