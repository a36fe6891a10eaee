// What driving a segment needs of those before it: for who begins in the middle of a route.
#pragma once

#include <functional>
#include <string>

#include "drive/segment_run.h"

namespace sparkpilot::drive {

// A segment's log, or what stands beside comma2k19's poses. Throws CannotDrive where the log is none. `note`, where
// given, is told what a segment without a log lacks.
Timeline segment_timeline(const Route& route, const Segment& segment, const TimelineOptions& options = {},
                          const std::function<void(const std::string&)>& note = {});

// Whether segment `at` of the route's list goes on where the one before it in the list ends.
bool follows(const Route& route, size_t at);

// Brings the model's state and `carry` to what they are at the beginning of segment `at` in a run that has driven all
// before it: drives the last 11.5 s of the segments before, over as many as it takes, and counts the lost frames of
// four minutes. `job` holds the run's options, model and shares.
void warm_up(const Route& route, size_t at, const SegmentJob& job, Carry& carry);

}  // namespace sparkpilot::drive
