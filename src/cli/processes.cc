#include "cli/processes.h"

#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cstdlib>

#include "base/parallel.h"
#include "cli/choices.h"
#include "cli/terminal.h"
#include "hw/device_facts.h"

namespace sparkpilot::cli {
namespace {

// How many of the run's processes are on this machine, as the launcher says.
int processes_here(int all) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"}) {
    if (const auto value = variable(name)) return std::clamp(std::atoi(value->c_str()), 1, all);
  }
  return all;
}

}  // namespace

int threads_of_each(const Comm& comm, bool tell) {
  const int here = processes_here(comm.size()), may = available_processors();
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (comm.size() == 1 || may >= all) return std::max(1, may / here);
  // The launcher has given each process some of them.
  if (tell && may * here < all) {
    note(fmt::format("the launcher lets each process use {} of {} processors: mpirun --bind-to none lifts that", may,
                     all));
  }
  return may;
}

std::string device_of_each(const std::string& device, const Comm& comm) {
  if (device != "cuda" || comm.size() == 1) return device;
  const std::vector<int> gpus = ask_device_facts().gpus;
  if (gpus.empty()) return device;
  return fmt::format("cuda:{}", gpus[static_cast<size_t>(std::max(launcher_local_rank(), 0)) % gpus.size()]);
}

}  // namespace sparkpilot::cli
