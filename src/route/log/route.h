// Routes on disk: the folders and files that openpilot's tools and comma2k19 have, found by path or by name. Nothing is
// downloaded.
//
// A route is one drive of one device ("dongle"), cut into segments of a minute. docs/routes.md has the layouts.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::drive {

enum class LogKind {
  automatic,  // the full log of a segment where it is there, else the decimated one
  full,       // rlog
  decimated,  // qlog
};

// What a segment has; an empty path: not there.
struct Segment {
  int number = 0;
  std::filesystem::path folder;
  std::filesystem::path rlog, qlog;
  std::filesystem::path road_video, wide_video, driver_video, qcamera;
  std::filesystem::path global_pose;  // comma2k19's folder of poses
};

struct Route {
  std::string name;                // "dongle|log id" as far as it is known, else the folder's or file's name
  std::vector<Segment> segments;   // by number; at least one
  std::vector<std::string> notes;  // what is not there and could be expected, a line each
  std::vector<int> missing;        // numbers of segments that the name or the folder lets expect and that are not there
  bool comma2k19 = false;
  LogKind logs = LogKind::automatic;  // which logs the name asked for

  // The segment's log of the kind asked for; empty where it has none.
  const std::filesystem::path& log(const Segment& segment) const;
};

struct RouteOptions {
  // The folder that names are looked up in. Empty: ~/.comma/media/0/realdata, as openpilot has it on a PC.
  std::filesystem::path data;
};

// The route that a path or a name means:
//   a route's folder, a segment's folder, a log or video file, FOLDER/NAME for one of a folder's several routes;
//   dongle|log, dongle/log, dongle_log or log alone, where a log is 2021-01-04--17-13-21 or 0000010e--5b26bc3be7, with
//   a segment (--13, /13, /-1) or a slice as Python has it (/2:6, /:5, /1:, /-2:, /0:10:2), then /r, /q or /a for the
//   kind of log.
// What exists as a path is a path. A device that the name gives is held against the folder's name, else the log. Fails
// (user) where nothing fits, saying what would; several routes in one folder are named.
Route find_route(const std::string& name_or_path, const RouteOptions& options = {});

// The same, where the name may be that of a set: "ci", openpilot's public test segments; then those that are there,
// with a note for each that is not on the first.
std::vector<Route> find_routes(const std::string& name_or_path, const RouteOptions& options = {});

// A name taken apart.
struct RouteName {
  std::string dongle;  // 16 characters; empty where the name has none
  std::string log;     // 20 characters
  std::optional<int> start, stop, step;
  bool slice = false;  // start:stop:step; else start alone is one segment
  LogKind logs = LogKind::automatic;

  std::string str() const;  // "dongle|log"
};
// Empty where the text is no route's name. Fails (user) where it is one with a range that cannot be.
std::optional<RouteName> parse_route_name(std::string_view text);

// openpilot's public test segments, "dongle|log--n", one for each make.
std::span<const std::string_view> ci_segments();

}  // namespace sparkpilot::drive
