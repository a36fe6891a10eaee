// The times of a model that was loaded afresh several times, for comparisons with times that are taken later.
//
// From one load of a model to the next its time differs by some per cent, because its memory lies elsewhere: one
// process, however long it measures, knows only one of these times. So a measurement that is to be compared later
// consists of repeats, each by a separate process, and in each the model's runs are timed in turns with a yardstick.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/yardstick.h"
#include "hw/wait_time.h"
#include "runtime/session.h"

namespace sparkpilot {

// A run counts if its threads together waited for no more than this share of its time.
inline constexpr double kMostWaiting = 0.02;

// One run of a session, and how long its threads waited meanwhile for a processor that something else used.
struct WatchedRun {
  double ms = 0, waited_ms = 0;
  bool waited() const { return waited_ms > kMostWaiting * ms; }
};
WatchedRun time_run(Session& session, const WaitTime& wait);

struct Repeat {
  std::vector<double> model_ms;  // of each round: the median of its runs
  // Of each round: for how much of these runs' time the threads, together, waited for a processor that something else
  // used. 0 if the system does not say.
  std::vector<double> wait_share;
  std::vector<YardstickTimes> yardstick;  // before the first round and after each: one more
};

// Times a session, which is compiled and has its inputs, on as many threads as it uses: after a few runs, 5 to 12
// rounds of about 10 ms and at least one run. In a round, runs that had to wait for a processor are done again, as long
// as there are no more than two in three. Takes 0.2 s, or five runs; at most three times that.
Repeat measure_repeat(Session& session);

nlohmann::ordered_json to_json(const Repeat& repeat);
// {"yardstick": {"version", "code"}, "processes": [...]}, as in bench's JSON.
nlohmann::ordered_json to_json(std::span<const Repeat> repeats);

// Fails (user) if `json` is something else: times have to be above 0 and below 1e9 ms, and every series as long as it
// should be. `where` names it in the message.
Repeat repeat_from(const nlohmann::ordered_json& json, const std::string& where);

}  // namespace sparkpilot
