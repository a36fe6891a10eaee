// Prepares the state for a segment in the middle of a route from the segments before it.
#pragma once

#include <functional>
#include <string>

#include "drive/segment_run.h"

namespace sparkpilot::drive {

// A segment's log, or comma2k19's data instead of it. Throws CannotDrive if the file is not a log. `note`, if given,
// receives what a segment without a log lacks.
Timeline segment_timeline(const Route& route, const Segment& segment, const TimelineOptions& options = {},
                          const std::function<void(const std::string&)>& note = {});

// Whether segment `at` of the route's list begins where the one before it in the list ends.
bool follows(const Route& route, size_t at);

// Brings the model's state and `state` to what they are at the beginning of segment `at` in a run that has driven all
// before it: drives the last 11.5 s before it, across segments if necessary, and counts the lost frames of four
// minutes. `job` holds the lanes and shares.
void warm_up(const Route& route, size_t at, const SegmentJob& job, DriveState& state);

}  // namespace sparkpilot::drive
