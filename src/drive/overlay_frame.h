// What a segment's log says of a frame, and what a model says, as the overlay shows them.
#pragma once

#include <set>
#include <string>

#include "drive/camera_stream.h"
#include "route/contract/outputs.h"
#include "route/draw/overlay.h"

namespace sparkpilot::drive {

// The camera's intrinsics at the size of a canvas.
Matrix3 canvas_intrinsics(const Camera& camera, int width, int height);

// Everything but the models. `route_start`: s of the device's clock at which the route began.
OverlayFrame overlay_frame(const Timeline& timeline, const PreparedFrame& frame, const Matrix3& intrinsics,
                           double route_start);

// Outputs as they would be in a log, of these heads (OutputParser::heads()); what belongs to other heads is empty.
ModelRecord record_of(const ModelOutputs& outputs, const std::set<std::string>& heads);

}  // namespace sparkpilot::drive
