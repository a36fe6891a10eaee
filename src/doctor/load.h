// What takes seconds, and is done only when asked: keeping the GPUs busy while their sensors are asked, reading a disk.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "doctor/verify.h"
#include "hw/source.h"

namespace sparkpilot {

struct Load {
  Verifications verified = {};
  std::vector<DriverAnswers> samples = {};  // of NVML, four a second, from a second after the load began
};

// Writes a file that goes away into `folder` and reads it back from the disk, not from memory, as far as the system
// lets anyone tell. Empty where the folder cannot be written or has no room.
std::optional<double> measure_disk(const std::filesystem::path& folder, int64_t bytes = int64_t{256} << 20);

// Verifies every GPU, then loads one after the other for `seconds`.
Load sample_under_load(Source& source, double seconds, VerifyOptions options = {});

}  // namespace sparkpilot
