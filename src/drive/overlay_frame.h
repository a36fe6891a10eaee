// What a segment's log says of a frame, as the overlay shows it.
#pragma once

#include "drive/camera_stream.h"
#include "route/draw/overlay.h"

namespace sparkpilot::drive {

// The camera's intrinsics at the size of a canvas.
Matrix3 canvas_intrinsics(const Camera& camera, int width, int height);

// Everything but the models. `route_start`: s of the device's clock at which the route began.
OverlayFrame overlay_frame(const Timeline& timeline, const PreparedFrame& frame, const Matrix3& intrinsics,
                           double route_start);

}  // namespace sparkpilot::drive
