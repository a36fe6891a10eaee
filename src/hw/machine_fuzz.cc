// Any bytes as a recorded machine: an Error, or a machine that says no nonsense and can be recorded and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "hw/probe.h"
#include "hw/record.h"
#include "hw/test_sanity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot;
  try {
    const auto source = recorded_source({reinterpret_cast<const char*>(data), size}, "fuzz");
    Recorder recorder(*source);
    const Machine machine = probe(recorder);
    if (!Sanity().check(machine).empty()) __builtin_trap();
    if (!Sanity().check(probe(*recorded_source(recorder.json(), "again"))).empty()) __builtin_trap();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
