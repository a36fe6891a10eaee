// Keeps the GPUs busy for some seconds and asks their sensors meanwhile.
#pragma once

#include <vector>

#include "doctor/verify.h"
#include "hw/source.h"

namespace sparkpilot {

struct Load {
  Verifications verified = {};
  std::vector<DriverAnswers> samples = {};  // of NVML, four a second, from a second after the load began
};

// Verifies every GPU, then loads one after the other for `seconds`.
Load sample_under_load(Source& source, double seconds, VerifyOptions options = {});

}  // namespace sparkpilot
