// Commands that a launcher started several times.
#pragma once

#include "comm/comm.h"

namespace sparkpilot::cli {

// Threads for this process where no number was asked for: its share of the processors that it may use, among the
// launcher's processes on this machine. `tell`: say on stderr if the launcher gives each process a few of them only.
int threads_of_each(const Comm& comm, bool tell);

}  // namespace sparkpilot::cli
