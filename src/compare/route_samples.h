// What a driving model's networks read on frames of a recorded route.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "bench/samples.h"
#include "drive/drive.h"

namespace sparkpilot::compare {

// Drives the first segment that has a video and keeps the networks' inputs on `count` frames, evenly over it, by role
// ("vision", "policy", "supercombo"). Of `run` count models, session, what of the route is driven, limit and stop;
// nothing is written. `progress` is called with frames done and of how many; it may be empty. Fails (user) if no frame
// can be driven. Once `stop` has become true, what was kept until then is returned.
std::map<std::string, Samples> samples_of_route(const drive::Route& route, drive::DriveOptions run, int64_t count,
                                                const std::function<void(int64_t, int64_t)>& progress);

}  // namespace sparkpilot::compare
