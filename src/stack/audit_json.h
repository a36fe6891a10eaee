// An audit as JSON: printed by `stack audit --json`, and read again for comparisons.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "stack/audit.h"
#include "stack/verdict.h"

namespace sparkpilot::stack {

// With verdicts if there is a target GPU; its `machine` is the processor that libraries have to load on. `absent` are
// core components that were not found.
nlohmann::ordered_json audit_json(const Audit& audit, const std::optional<NamedGpu>& target);

// `name`, `compute_capability`, `machine`; null without a GPU.
nlohmann::ordered_json json_gpu(const std::optional<NamedGpu>& gpu);

// The audit in such a document; fails (user) saying what is wrong with it.
Audit read_audit_json(const std::string& text, const std::string& file);

// Core components that no library of the audit belongs to.
std::vector<std::string_view> absent_components(const Audit& audit);

}  // namespace sparkpilot::stack
