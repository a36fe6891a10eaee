// Computes something small on each GPU and compares it with the processor: a test of everything from the driver to the
// arithmetic.
//
// The kernel is PTX that the driver compiles, so neither a CUDA toolkit nor GPU code in the program is needed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hw/gpu_driver.h"

namespace sparkpilot {

struct Verification {
  int index = 0;
  std::string name = {};
  bool right = false;
  // What failed, with the driver's error; or how many values are wrong. Empty if all is right.
  std::string problem = {};
  int64_t values = 0, wrong = 0;
  std::optional<double> start_ms = {};  // context and compilation
  std::optional<double> run_ms = {};    // copy to the GPU, compute, copy back
};

struct VerifyOptions {
  double wait_seconds = 20;  // for each call into the driver; compiling takes a while on a cold one
  // Keeps every GPU computing for this time after it was verified; meanwhile the caller may read its sensors.
  double load_seconds = 0;
  std::vector<std::string> libraries = cuda_libraries();
};

struct Verifications {
  // Why no GPU was reached, or no further one: no driver, no GPU, it fails, it hangs. Not empty if `devices` is empty.
  std::string problem = {};
  std::vector<Verification> devices = {};
};

enum class Verified {
  right,    // every GPU computes what the processor does
  wrong,    // one does not, or the driver stopped answering meanwhile
  nothing,  // no GPU was reached
};
Verified outcome(const Verifications& verifications);

// Takes a few hundred kilobytes of each GPU's memory. Compares bit for bit.
Verifications verify_gpus(const VerifyOptions& options = {});

}  // namespace sparkpilot
