// A route's logs read for what they say of the car, with progress and notes.
#pragma once

#include <atomic>
#include <string>

#include "cli/command.h"
#include "route/log/car_signals.h"

namespace sparkpilot::cli {

struct RouteSignals {
  std::string name;  // the route's
  drive::CarSignals signals;
  int64_t logs = 0;  // that were read
};
// Segments without a log and damage are notes on stderr. Ends early once `stop` is set. Fails (user) if there is no log
// at all.
RouteSignals read_route_signals(const Program& program, const std::string& route,
                                const std::atomic<bool>* stop = nullptr);

}  // namespace sparkpilot::cli
