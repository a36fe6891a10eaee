// The terminal view of `sparkpilot monitor`.
#pragma once

#include "hw/source.h"

namespace sparkpilot::cli {

// Runs until it is ended by a key or a signal, or the terminal disappears; then restores the terminal. Fails (user) if
// there is no terminal, or none that can be drawn on.
void show_view(Source& source, double interval_s, bool colours);

}  // namespace sparkpilot::cli
