// For tests: the recorded machines of tests/machines, and small ones made by the test.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "hw/probe.h"
#include "hw/record.h"

namespace sparkpilot {

inline std::filesystem::path machines_folder() {
  return std::filesystem::path(SPARKPILOT_SOURCE_DIR) / "tests/machines";
}
inline std::unique_ptr<Source> source_of(const std::string& name) {
  return recorded_source(read_file(machines_folder() / (name + ".json")), name);
}
inline Machine machine_of(const std::string& name) { return probe(*source_of(name)); }

// A source made of a few parts of a recording.
inline std::unique_ptr<Source> small_source(const nlohmann::json& parts) {
  nlohmann::json record = {{"sparkpilot_record", kRecordVersion}};
  record.update(parts);
  return recorded_source(record.dump(), "small");
}
inline Machine small_machine(const nlohmann::json& parts) { return probe(*small_source(parts)); }
inline nlohmann::json one_file(const char* path, const nlohmann::json& text) { return {{"files", {{path, text}}}}; }

}  // namespace sparkpilot
