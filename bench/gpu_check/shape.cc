#include "shape.h"

#include <fmt/core.h>

#include <cmath>

#include "base/error.h"

namespace sparkpilot::gpu_check {
namespace {

// An object has these fields and no others; a field whose name ends in '?' may be missing. A list has elements of the
// one kind, or none. Kinds: string, flag (true or false), count (a whole number from 0 on), number (null where it was
// NaN or infinite, which JSON has not), any.
constexpr const char* kDocument = R"({
  "format": "string", "format_version": "count", "commit": "string", "emulated": "flag",
  "gpu": {"name": "string", "capability": "string", "cuda_of_driver": "string", "multiprocessors": "count",
          "memory_bytes": "count", "l2_bytes": "count", "unified_memory": "flag"},
  "machine": "any", "versions": "any", "parts": "any"
})";

constexpr const char* kPart = R"({
  "passed": "flag", "seconds": "number", "asked": {"filter": "string", "models": "string", "tiny": "flag"},
  "failures": ["string"], "figures?": "any",
  "go_on?": {"next?": "count", "stopped?": "count", "items?": ["string"], "failures": ["string"], "figures?": "any"}
})";

// By part. What a part that failed or is unfinished has not found yet is missing.
constexpr const char* kFigures = R"({
  "words": {"cases": "count", "not_on_this_gpu": ["string"], "image": "string"},
  "ops": {"ops": [{"op": "string", "kernels": [
    {"kernel": "string", "passed": "count", "failed": "count", "relative_l2": "number", "allowed": "number"}]}]},
  "networks": {"networks": [{"network": "string", "precisions": [
    {"precision": "string", "load_ms": "number", "states": "count",
     "outputs": [{"output": "string", "relative_l2": "number", "max_abs": "number"}],
     "launches": "count", "copies_to_gpu": "count", "copies_to_host": "count", "bytes_to_gpu": "count",
     "bytes_to_host": "count", "nodes_on_cpu": ["string"]}]}]},
  "training": {"trainings": [{"network": "string", "mode": "string", "batch": "count", "updates": "count",
    "loss_difference": "number", "norm_difference": "number", "step_ms": "number", "cpu_step_ms": "number",
    "programs": [{"program": "string", "launches": "count", "bytes_to_gpu": "count", "bytes_to_host": "count"}],
    "nodes?": "count", "ops?": [{"op": "string", "nodes": "count", "launches": "count", "us": "number"}],
    "slowest_nodes?": [{"node": "string", "op": "string", "kernel": "string", "shape": "string", "launches": "any",
                        "us": "number"}]}]},
  "worlds": {"kinds": [{"kind": "string", "steps": "count", "checked": "count", "different": "count", "worlds": "count",
    "cpu_threads": "count", "cpu_steps_per_s": "number", "gpu_steps_per_s": "number", "cpu_time_to_gpu": "number"}],
    "no_plants?": [{"file": "string", "why": "string"}]},
  "faults": {"checks": [{"check": "string", "found": "any"}]},
  "nccl": {"version": "string", "means": [{"bytes": "count", "exchange_us": "number"}]},
  "sanitizer": {"tools": [{"tool": "string", "ended": "string", "log": "string"}]},
  "limits": {"peak": {"threads": "count",
      "units": [{"name": "string", "products": "string", "flops_per_second": "number"}],
      "levels": [{"name": "string", "bytes": "number", "read_bytes_per_second": "number", "bytes_per_second": "number"}]},
    "empty_kernel_ns": "number", "empty_run_us": "number", "to_gpu_bytes_per_second": "number",
    "to_host_bytes_per_second": "number"},
  "bench": {"networks": [{"network": "string", "variants": [
    {"device": "string", "precision": "string", "threads": "count", "runs": "count", "mean_ms": "number", "p50_ms": "number",
     "p90_ms": "number", "p99_ms": "number", "min_ms": "number", "max_ms": "number", "runs_per_s": "number",
     "first_ms": "number", "load_ms": "number",
     "time_to_cpu": {"median": "number", "low": "number", "high": "number"}, "gpu?": "any", "nodes?": "count",
     "ops?": [{"op": "string", "nodes": "count", "launches": "count", "us": "number"}],
     "slowest_nodes?": [{"node": "string", "op": "string", "kernel": "string", "shape": "string", "launches": "any",
                         "us": "number"}]}]}]},
  "peers": {"networks": [{"network": "string", "precision": "string",
    "ours": {"runs": "count", "mean_ms": "number", "p50_ms": "number", "p90_ms": "number", "p99_ms": "number",
             "min_ms": "number", "max_ms": "number", "runs_per_s": "number"},
    "engines": [{"peer": "string", "engine": "string", "device?": "string", "precision?": "string", "runs?": "count",
      "mean_ms?": "number", "p50_ms?": "number", "p90_ms?": "number", "p99_ms?": "number", "min_ms?": "number",
      "max_ms?": "number", "runs_per_s?": "number", "load_ms?": "number",
      "time_to_ours?": {"median": "number", "low": "number", "high": "number"}, "not_run?": "string"}]}]},
  "soak": {"network": "string", "precision": "string", "seconds": "number", "pauses": ["number"], "minutes": [
    {"seconds": "number", "runs": "count", "readings": "count", 
     "temperature_c": {"min": "number", "mean": "number", "max": "number"},
     "sm_clock_mhz": {"min": "number", "mean": "number", "max": "number"},
     "power_w": {"min": "number", "mean": "number", "max": "number"},
     "gpu_percent": {"min": "number", "mean": "number", "max": "number"}, "throttle_reasons": ["string"]}]}
})";

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  constexpr size_t kMost = 40;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

bool is_a(const std::string& kind, const Json& value) {
  if (kind == "any") return true;
  if (kind == "string") return value.is_string();
  if (kind == "flag") return value.is_boolean();
  if (kind == "count") return value.is_number_unsigned();
  return value.is_null() || (value.is_number() && std::isfinite(value.get<double>()));
}

std::string described(const Json& shape) {
  if (shape.is_object()) return "fields";
  if (shape.is_array()) return "a list";
  const std::string kind = shape.get<std::string>();
  return kind == "flag" ? "true or false" : kind == "count" ? "a whole number from 0 on" : "a " + kind;
}

// `partly`: fields of the outermost object may be missing.
std::string fault(const Json& shape, const Json& value, const std::string& path, bool partly = false) {
  const auto wrong = [&] { return fmt::format("{}: expected {}, got {}", path, described(shape), shown(value)); };
  if (shape.is_array()) {
    if (!value.is_array()) return wrong();
    for (size_t i = 0; i < value.size(); ++i) {
      std::string found = fault(shape[0], value[i], fmt::format("{}[{}]", path, i));
      if (!found.empty()) return found;
    }
    return "";
  }
  if (!shape.is_object()) return is_a(shape.get<std::string>(), value) ? "" : wrong();
  if (!value.is_object()) return wrong();
  const auto below = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  size_t known = 0;
  for (const auto& [key, kind] : shape.items()) {
    const bool optional = partly || key.ends_with('?');
    const std::string name = key.substr(0, key.size() - (key.ends_with('?') ? 1 : 0));
    const auto found = value.find(name);
    if (found == value.end()) {
      if (!optional) return fmt::format("{}: is missing", below(name));
      continue;
    }
    ++known;
    std::string inside = fault(kind, *found, below(name));
    if (!inside.empty()) return inside;
  }
  for (const auto& [key, member] : value.items()) {
    if (!shape.contains(key) && !shape.contains(key + "?")) return below(one_line(key)) + ": is not a known field";
  }
  return "";
}

std::string fault_of_part(const std::string& name, const Json& part) {
  static const Json shape = Json::parse(kPart), figures = Json::parse(kFigures);
  const std::string path = "parts." + one_line(name);
  const auto known = figures.find(name);
  if (known == figures.end()) return path + ": is not a known part";
  std::string found = fault(shape, part, path);
  if (!found.empty()) return found;
  const bool done = part.contains("figures"), passed = part["passed"].get<bool>();
  if (done == part.contains("go_on")) return path + ": expected either figures or go_on";
  if (!done) {
    if (passed) return path + ".passed: is true, but the part is unfinished";
    const Json& go_on = part["go_on"];
    if (go_on.contains("next") && (!go_on.contains("items") || go_on["next"].get<size_t>() > go_on["items"].size()))
      return fmt::format("{}.go_on.next: is {}, beyond the items", path, shown(go_on["next"]));
    return go_on.contains("figures") ? fault(*known, go_on["figures"], path + ".go_on.figures", true) : "";
  }
  if (passed != part["failures"].empty())
    return fmt::format("{}.passed: is {}, with {} failures", path, passed, part["failures"].size());
  found = fault(*known, part["figures"], path + ".figures", !passed);
  // The list of what was checked or measured; only the words that a GPU has not may be none.
  for (const auto& [key, list] : part["figures"].items()) {
    if (found.empty() && passed && list.is_array() && list.empty() && key != "not_on_this_gpu" && key != "pauses")
      found = fmt::format("{}.figures.{}: is empty, but the part has passed", path, key);
  }
  return found;
}

}  // namespace

bool is_ours(const Json& document) { return document.is_object() && document.value("format", Json()) == kFormat; }

std::string fault_of(const Json& document) {
  static const Json shape = Json::parse(kDocument);
  std::string found = fault(shape, document, "");
  if (!found.empty()) return found;
  if (document["format"] != kFormat)
    return fmt::format("format: expected \"{}\", got {}", kFormat, shown(document["format"]));
  if (document["format_version"] != kFormatVersion)
    return fmt::format("format_version: expected {}, got {}", kFormatVersion, shown(document["format_version"]));
  if (!document["parts"].is_object()) return "parts: expected fields, got " + shown(document["parts"]);
  for (const auto& [name, part] : document["parts"].items()) {
    found = fault_of_part(name, part);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace sparkpilot::gpu_check
