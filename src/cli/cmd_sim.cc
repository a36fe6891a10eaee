// sparkpilot sim: control algorithms tested in simulated worlds.
#include "cli/command.h"
#include "cli/sim_list.h"
#include "cli/sim_tinyphysics.h"

namespace sparkpilot::cli {

void add_sim(Program& program, Command app) {
  const Command group = app.add_group("sim", "control algorithms tested in simulated worlds");
  group.footer("Examples:\n  sparkpilot sim list\n  sparkpilot sim tinyphysics tinyphysics.onnx data");
  add_sim_list(program, group);
  add_sim_tinyphysics(program, group);
}

}  // namespace sparkpilot::cli
