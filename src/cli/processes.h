// Commands that a launcher started several times.
#pragma once

#include <string>

#include "comm/comm.h"

namespace sparkpilot::cli {

// Threads for this process where no number was asked for: its share of the processors that it may use, among the
// launcher's processes on this machine. `tell`: say on stderr if the launcher gives each process a few of them only.
int threads_of_each(const Comm& comm, bool tell);

// The device for this process where `device` was asked for: the processes of a machine take its GPUs in turn, where
// none was named.
std::string device_of_each(const std::string& device, const Comm& comm);

}  // namespace sparkpilot::cli
