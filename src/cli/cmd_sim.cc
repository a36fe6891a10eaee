// sparkpilot sim: control algorithms tested in simulated worlds.
#include "cli/command.h"
#include "cli/sim_compare.h"
#include "cli/sim_extract.h"
#include "cli/sim_fit.h"
#include "cli/sim_list.h"
#include "cli/sim_run.h"
#include "cli/sim_show.h"
#include "cli/sim_tinyphysics.h"
#include "cli/sim_tune.h"

namespace sparkpilot::cli {

void add_sim(Program& program, Command app) {
  const Command group = app.add_group("sim", "control algorithms tested in simulated worlds");
  group.footer("Examples:\n  sparkpilot sim list\n  sparkpilot sim run --scenarios curves --variants 100");
  add_sim_list(program, group);
  add_sim_run(program, group);
  add_sim_show(program, group);
  add_sim_compare(program, group);
  add_sim_tune(program, group);
  add_sim_fit(program, group);
  add_sim_extract(program, group);
  add_sim_tinyphysics(program, group);
}

}  // namespace sparkpilot::cli
