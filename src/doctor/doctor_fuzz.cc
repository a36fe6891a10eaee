// Any bytes as a recorded machine: an Error, or a machine with plausible values, which can be recorded and read again,
// and is examined by every check.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "doctor/report.h"
#include "hw/probe.h"
#include "hw/record.h"
#include "hw/test_sanity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot;
  try {
    const auto source = recorded_source({reinterpret_cast<const char*>(data), size}, "fuzz");
    Recorder recorder(*source);
    const Diagnosis diagnosis = examine(recorder, {.models = "/models", .data = "/data", .here = false});
    if (!Sanity().check(diagnosis.machine).empty()) __builtin_trap();
    if (report_text(diagnosis, {.all = true}).empty()) __builtin_trap();
    report_json(diagnosis).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!Sanity().check(probe(*recorded_source(recorder.json(), "again"))).empty()) __builtin_trap();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
