// What a measurement depends on, as JSON: the machine, the versions, the model file, the settings. Keys carry their
// unit; what is not known is null. docs/bench.md describes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "bench/model_bench.h"
#include "hw/cpu.h"
#include "sparkpilot/machine.h"

namespace sparkpilot {

// What `bench --json` writes begins with these two, `format` and `format_version`.
inline constexpr const char* kBenchFormat = "sparkpilot bench";
inline constexpr int kBenchFormatVersion = 1;

// Of a file's bytes, or of several files' one after another.
struct FileFacts {
  int64_t bytes = 0;
  std::string fnv1a_64;  // FNV-1a with 64 bits, 16 hexadecimal digits
};

// `files`: a model and its external data, in the order in which load_onnx() returns them. Fails (user) naming a file
// that cannot be read.
FileFacts file_facts(std::span<const std::filesystem::path> files);

nlohmann::ordered_json machine_facts(const Machine& machine, const CpuFeatures& features);
// sparkpilot, the program file, compiler and oneDNN.
nlohmann::ordered_json version_facts();
// What was asked for, as far as it may change the time of a run, except precision, threads and batch. The device is
// that of the options, which settle_device() has settled.
nlohmann::ordered_json settings_facts(const BenchOptions& options);

std::string_view tune_name(Tune tune);  // "off", "auto", "full"

}  // namespace sparkpilot
