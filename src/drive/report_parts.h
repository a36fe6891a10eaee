// Parts of a run's page that have a file of their own. Included by the report's sources alone.
#pragma once

#include "drive/draw/page.h"
#include "drive/report.h"

namespace sparkpilot::drive {

void add_reference(Page& page, const ReferenceReport& report);

}  // namespace sparkpilot::drive
