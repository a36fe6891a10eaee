#include "cli/route_signals.h"

#include "base/error.h"
#include "cli/terminal.h"
#include "route/log/reader.h"
#include "route/log/route.h"

namespace sparkpilot::cli {

RouteSignals read_route_signals(const Program& program, const std::string& route, const std::atomic<bool>* stop) {
  const auto say = [&](const std::string& text) {
    if (!program.quiet) note(text);
  };
  const drive::Route found = drive::find_route(route, {program.settings["data"].value});
  if (!found.missing.empty()) say(fmt::format("{}: {} segments are not there", found.name, found.missing.size()));
  RouteSignals out{found.name, {}, 0};
  drive::CarSignalsReader reader;
  {
    Progress bar(!program.quiet, "reading");
    for (size_t i = 0; i < found.segments.size() && !(stop != nullptr && *stop); ++i) {
      const std::filesystem::path& log = found.log(found.segments[i]);
      if (log.empty()) {
        say(fmt::format("{}: segment {} has no log", found.name, found.segments[i].number));
        continue;
      }
      drive::LogReader events(log);
      reader.add(events, [&](double done) {
        bar.at((static_cast<double>(i) + done) / static_cast<double>(found.segments.size()));
      });
      if (!events.damage().empty()) say(fmt::format("{}: {}", log.string(), events.damage()));
      ++out.logs;
    }
  }
  if (out.logs == 0 && !(stop != nullptr && *stop)) fail("{}: the route has no log to read", route);
  out.signals = reader.take();
  return out;
}

}  // namespace sparkpilot::cli
