// How long an algorithm takes for one world, measured apart from the batch.
#pragma once

#include "sim/batch.h"

namespace sparkpilot::sim {

// Times of single updates in microseconds: median and 99th percentile.
struct UpdateLatency {
  double p50_us = 0, p99_us = 0;
};

// Of openpilot's lateral controllers.
UpdateLatency update_latency(Lateral lateral, const WorldSpec& world);

}  // namespace sparkpilot::sim
