// Any bytes as run.json or as the rows of a run: results or an Error, never anything else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "sim/results.h"

using namespace sparkpilot;
using namespace sparkpilot::sim;

// The first byte says which of the two follows.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  RunInfo info;
  info.metrics = {"tracking_rmse", "offset_max"};
  try {
    if (data[0] == 'j') parse_run(text, "run.json");
    else parse_rows(text, info, "results.csv");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
