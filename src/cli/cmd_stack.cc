// sparkpilot stack: what GPU code the machine's ML libraries contain.
#include "cli/command.h"

namespace sparkpilot::cli {

void add_stack(Program& program, Command app) {
  const Command group = app.add_group("stack", "what GPU code the machine's ML libraries contain");
  group.footer(
      "Examples:\n  sparkpilot stack audit\n  sparkpilot stack audit --gpu gb10 --path "
      "torch-2.9.1-cp312-cp312-linux_aarch64.whl");
  add_stack_audit(program, group);
  add_stack_plan(program, group);
}

}  // namespace sparkpilot::cli
