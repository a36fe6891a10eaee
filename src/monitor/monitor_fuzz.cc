// Any bytes as a recorded machine: it is read twice, written and drawn, and every share is between 0 and 100.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hw/record.h"
#include "monitor/metrics.h"
#include "monitor/output.h"
#include "monitor/sampler.h"
#include "monitor/view.h"
#include "sparkpilot/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot;
  using namespace sparkpilot::monitor;
  try {
    const auto source = recorded_source({reinterpret_cast<const char*>(data), size}, "fuzz");
    Sampler sampler(*source);
    History history;
    Summary summary(sampler.next(-1'000'000'000));
    for (int64_t second = 0; second < 2; ++second) {
      const Sample sample = sampler.next(second * 1'000'000'000);
      for (const Quantity& quantity : quantities(sample)) {
        if (!quantity.value) continue;
        const bool share = quantity.unit == Unit::percent;
        if (!std::isfinite(*quantity.value) || *quantity.value < 0 || (share && *quantity.value > 100))
          __builtin_trap();
      }
      history.add(sample);
      summary.add(sample);
      to_json(sample, "now").dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      if (to_text(sample, 5).empty() || Csv(sample).row(sample, "now").empty()) __builtin_trap();
      metrics_page(sample);
      for (const int width : {40, 80, 120}) draw(sample, history, {}, width, width / 3);
    }
    to_json(summary).dump();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
