// A model held against itself: compiled with everything on against the plain reference in fp32 (in the file's own types
// where the precision is Precision::model). docs/model_check.md says what the outcomes mean.
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
  bool compare = true;  // false: only run it and look for values that are not finite
  // Of the relative L2 error. 0: 1e-4; 1e-3 for a model with 16-bit weights, 1e-2 for fp16, 5e-2 for bf16 and for the
  // arithmetic in 16 bits that a model itself asks for.
  double tolerance = 0;
};

enum class Outcome {
  passed,
  // It differs by more than is allowed, and so do plain runs to whose every value a rounding error is added: these
  // inputs say nothing about it.
  ill_conditioned,
  failed,
};
std::string_view name(Outcome outcome);  // "passed", "ill-conditioned", "failed"

struct OutputCheck {
  std::string name;
  int64_t not_finite = 0;          // the same NaN or infinity in the reference is no difference
  double relative_l2 = 0;          // against the reference; 0 where it was not compared
  std::optional<double> rounding;  // relative L2 of what rounding alone does; empty where nothing asked for it
  Outcome outcome = Outcome::failed;
};

struct ModelCheck {
  std::vector<OutputCheck> outputs;
  double tolerance = 0;
  std::vector<std::string> notes;  // what was assumed
  bool passed() const;             // no output failed
};

// Fails (user) where the model cannot be read, compiled or run. The reference is slow: seconds for a driving model.
ModelCheck check_model(const std::filesystem::path& file, const ModelCheckOptions& options = {});

}  // namespace sparkpilot
