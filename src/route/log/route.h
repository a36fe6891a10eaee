// Routes on disk: the folders and files that openpilot's tools and comma2k19 have, found by path or by name. Nothing is
// downloaded.
//
// A route is one drive of one device ("dongle"), divided into segments of a minute. docs/routes.md has the layouts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::drive {

enum class LogKind {
  automatic,  // the full log of a segment if it exists, else the decimated one
  full,       // rlog
  decimated,  // qlog
};

// The files of a segment; an empty path: absent.
// A minute at 20 Hz.
inline constexpr int64_t kSegmentFrames = 1200;

struct Segment {
  int number = 0;
  std::filesystem::path folder;
  std::filesystem::path rlog, qlog;
  std::filesystem::path road_video, wide_video, driver_video, qcamera;
  std::filesystem::path global_pose;  // comma2k19's folder of poses

  // The id of the first frame where nothing tells it: that of a device whose segments before were all whole.
  uint32_t first_frame_id() const { return static_cast<uint32_t>(kSegmentFrames * number); }
};

struct Route {
  std::string name;                // "dongle|log id" as far as known, else the folder's or file's name
  std::vector<Segment> segments;   // by number; at least one
  std::vector<std::string> notes;  // what is missing, a line each
  std::vector<int> missing;        // numbers of missing segments, as the name or the folder implies them
  bool comma2k19 = false;
  LogKind logs = LogKind::automatic;  // which logs the name asked for

  // The segment's log of the requested kind; empty if it has none.
  const std::filesystem::path& log(const Segment& segment) const;
};

struct RouteOptions {
  // The folder in which names are looked up. Empty: ~/.comma/media/0/realdata, openpilot's on a PC.
  std::filesystem::path data;
};

// The route that a path or a name means:
//   a route's folder, a segment's folder, a log or video file, FOLDER/NAME for one of a folder's several routes;
//   dongle|log, dongle/log, dongle_log or log alone, where a log is 2021-01-04--17-13-21 or 0000010e--5b26bc3be7, with
//   a segment (--13, /13, /-1) or a slice as in Python (/2:6, /:5, /1:, /-2:, /0:10:2), then /r, /q or /a for the
//   kind of log.
// An existing path is taken as a path. A device in the name is compared with the folder's name, else with the log.
// Fails (user) if nothing fits, saying what would; if a folder has several routes, they are listed.
Route find_route(const std::string& name_or_path, const RouteOptions& options = {});

// The same, but the name may be that of a set: "ci", openpilot's public test segments; the result is those that exist
// locally, and the first has a note for each missing one.
std::vector<Route> find_routes(const std::string& name_or_path, const RouteOptions& options = {});

// The logs of routes, in order. `say` is told what is missing, a line each. Fails (user) naming `asked` if there is
// none.
std::vector<std::filesystem::path> logs_of(std::span<const Route> routes, const std::string& asked,
                                           const std::function<void(const std::string&)>& say);

// The parts of a name.
struct RouteName {
  std::string dongle;  // 16 characters; empty if the name has none
  std::string log;     // 20 characters
  std::optional<int> start, stop, step;
  bool slice = false;  // start:stop:step; else start alone is one segment
  LogKind logs = LogKind::automatic;

  std::string str() const;  // "dongle|log"
};
// Empty if the text is not a route's name. Fails (user) if it is one with an impossible range.
std::optional<RouteName> parse_route_name(std::string_view text);

// openpilot's public test segments, "dongle|log--n", one for each make.
std::span<const std::string_view> ci_segments();

}  // namespace sparkpilot::drive
