// sparkpilot route: recorded drives. One file per verb: cmd_route_info.cc, cmd_route_dump.cc, cmd_route_synth.cc.
#include "cli/command.h"

namespace sparkpilot::cli {

void add_route(Program& program, Command app) {
  const Command group = app.add_group("route", "show what a recorded drive contains");
  group.footer(
      "Examples:\n"
      "  sparkpilot route info '/data/2023-07-27--13-01-19--0'\n"
      "  sparkpilot route info 'a2a0ccea32023010|2023-07-27--13-01-19' --data /data\n"
      "  sparkpilot route dump carState a2a0ccea32023010/2023-07-27--13-01-19/2:6 --fields vEgo,aEgo --csv\n"
      "A ROUTE is a folder of segments, a segment's folder, a log or video file, or a name that is looked up in "
      "--data:\n"
      "dongle|log, then one segment (/5), or a slice as in Python (/2:6, /-1, /:5), then /r, /q or /a for full,\n"
      "decimated or either log; or ci, openpilot's public test segments. docs/routes.md says more.");
  add_route_info(program, group);
  add_route_dump(program, group);
  add_route_synth(program, group);
}

void add_route_flags(Program& program, Command command, std::string& route) {
  command.add_option("route", route, "folder, file or name of a route").required().type_name("ROUTE");
  add_setting(program, command, "data");
}

}  // namespace sparkpilot::cli
