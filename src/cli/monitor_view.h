// The terminal view of `sparkpilot monitor`.
#pragma once

#include "hw/source.h"

namespace sparkpilot::cli {

// Until somebody ends it by a key or a signal, or the terminal goes away; the terminal is then as it was. Fails (user)
// where there is none, or one that cannot be drawn on.
void show_view(Source& source, double interval_s);

}  // namespace sparkpilot::cli
