// Measurements that take seconds and are made only on request: reading sensors while the GPUs are busy, reading a disk.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "doctor/verify.h"
#include "hw/source.h"

namespace sparkpilot {

struct Load {
  Verifications verified = {};
  std::vector<GpuDriverAnswers> samples = {};  // NVML's, four per second, beginning a second after the load began
};

// Writes a temporary file into `folder` and reads it back from the disk, not from memory, as far as the system allows.
// Empty if the folder cannot be written or has no room.
std::optional<double> measure_disk(const std::filesystem::path& folder, int64_t bytes = int64_t{256} << 20);

// Verifies every GPU, then loads one after the other for `seconds`.
Load sample_under_load(Source& source, double seconds, VerifyOptions options = {});

}  // namespace sparkpilot
