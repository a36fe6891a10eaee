// Which flags of `sparkpilot compare` have an effect on what. One that would have none is refused, not ignored.
#pragma once

#include <string>
#include <vector>

namespace sparkpilot::cli {

enum class CompareMode {
  models,  // model files, on the same inputs
  bisect,  // the same, in search of the first node that differs
  drives,  // finished ones
  route    // driven with models
};

// `given`: the flags of the command line, by their long names. Fails (user) naming the first that would have no effect;
// (internal) on one that is not in the table.
void refuse_idle_flags(CompareMode mode, const std::vector<std::string>& given);

}  // namespace sparkpilot::cli
