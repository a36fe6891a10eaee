// Compares a compiled model, with all passes on, with its plain reference in fp32 (for Precision::model in the file's
// own types). docs/model_check.md says what the outcomes mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/session.h"

namespace sparkpilot {

struct ModelCheckOptions {
  SessionOptions session;
  uint64_t seed = 1;    // of the inputs
  bool compare = true;  // false: only run it and search for values that are not finite
  // Limit of the relative L2 error. 0: 1e-4; 1e-3 for a model with 16-bit weights, 1e-2 for fp16, 5e-2 for bf16 and for
  // 16-bit arithmetic that the model itself asks for.
  double tolerance = 0;
};

enum class Outcome {
  passed,
  // It differs by more than the limit, but so do plain runs with a rounding error added to every value: these inputs
  // prove nothing about it.
  ill_conditioned,
  failed,
};
std::string_view name(Outcome outcome);  // "passed", "ill-conditioned", "failed"

struct OutputCheck {
  std::string name;
  int64_t not_finite = 0;          // the same NaN or infinity in the reference is not a difference
  double relative_l2 = 0;          // against the reference; 0 if not compared
  std::optional<double> rounding;  // relative L2 from rounding alone; empty if not needed
  Outcome outcome = Outcome::failed;
};

struct ModelCheck {
  std::vector<OutputCheck> outputs;
  double tolerance = 0;
  std::vector<std::string> notes;  // assumptions
  bool passed() const;             // no output failed
};

// Fails (user) if the model cannot be read, compiled or run. The reference is slow: seconds for a driving model.
ModelCheck check_model(const std::filesystem::path& file, const ModelCheckOptions& options = {});

}  // namespace sparkpilot
