#include "route/log/route.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "route/log/reader.h"
#include "route/log/segments.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? ", " : " to ", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string segments_text(const std::vector<int>& numbers) {
  return (numbers.size() == 1 ? "segment " : "segments ") + ranges(numbers);
}

void add_note(Route& route, const std::vector<int>& numbers, std::string_view what) {
  if (!numbers.empty()) {
    route.notes.push_back(fmt::format("{} {} {}", segments_text(numbers), numbers.size() == 1 ? "has" : "have", what));
  }
}

// Notes what only some segments have, and what none has.
void note_missing(Route& route) {
  const auto without = [&](auto&& has) {
    std::vector<int> numbers;
    for (const Segment& segment : route.segments) {
      if (!has(segment)) numbers.push_back(segment.number);
    }
    return numbers;
  };
  const auto compare = [&](fs::path Segment::*where, const std::string& what) {
    const auto numbers = without([&](const Segment& segment) { return !(segment.*where).empty(); });
    if (numbers.size() < route.segments.size()) add_note(route, numbers, "no " + what);
  };
  const auto no_log = without([&](const Segment& segment) { return !route.log(segment).empty(); });
  const std::string log = route.logs == LogKind::full        ? "full log (rlog)"
                          : route.logs == LogKind::decimated ? "decimated log (qlog)"
                                                             : "log";
  if (no_log.size() == route.segments.size()) route.notes.push_back("there is no " + log);
  else add_note(route, no_log, "no " + log);
  const auto no_video = without([](const Segment& segment) {
    return !segment.road_video.empty() || !segment.wide_video.empty() || !segment.driver_video.empty() ||
           !segment.qcamera.empty();
  });
  if (no_video.size() == route.segments.size()) route.notes.emplace_back("there is no video");
  compare(&Segment::road_video, "road camera video");
  compare(&Segment::wide_video, "wide camera video");
  compare(&Segment::driver_video, "driver camera video");
  compare(&Segment::qcamera, "qcamera.ts");
}

// The segment numbers that a range means if segments 0 to `last` may exist, as by Python's slices.
std::vector<int> wanted_numbers(const RouteName& name, int last) {
  const int count = last + 1;
  const auto bound = [&](std::optional<int> value, int otherwise) {
    return value ? std::clamp(*value < 0 ? *value + count : *value, 0, count) : otherwise;
  };
  std::vector<int> numbers;
  const int stop = bound(name.stop, count);
  for (int n = bound(name.start, 0); n < stop; n += name.step.value_or(1)) numbers.push_back(n);
  return numbers;
}

Route make_route(std::string name, Segments segments, const RouteName& range) {
  Route route;
  route.name = std::move(name);
  route.logs = range.logs;
  const int last = segments.rbegin()->first;
  const auto has_text = [&] {
    std::vector<int> present;
    for (const auto& [number, segment] : segments) present.push_back(number);
    return segments_text(present);
  };
  std::vector<int> wanted, absent;  // up to the last segment that exists, and beyond it
  if (range.start && !range.slice) {
    const int number = *range.start < 0 ? *range.start + last + 1 : *range.start;
    if (!segments.contains(number)) fail("{}: there is no segment {}; it has {}", route.name, *range.start, has_text());
    wanted = {number};
  } else if (range.slice) {
    wanted = wanted_numbers(range, last);
    for (int n = std::max(last + 1, range.start.value_or(0)); n < range.stop.value_or(0); ++n) absent.push_back(n);
  } else {
    for (int n = segments.begin()->first; n <= last; ++n) wanted.push_back(n);
  }
  for (const int number : wanted) {
    const auto found = segments.find(number);
    if (found == segments.end()) route.missing.push_back(number);
    else route.segments.push_back(std::move(found->second));
  }
  if (route.segments.empty()) fail("{}: the range holds no segment; it has {}", route.name, has_text());
  route.missing.insert(route.missing.end(), absent.begin(), absent.end());
  if (!route.missing.empty()) {
    route.notes.push_back(
        fmt::format("{} {} not there", segments_text(route.missing), route.missing.size() == 1 ? "is" : "are"));
  }
  for (const Segment& segment : route.segments) route.comma2k19 = route.comma2k19 || is_comma2k19(segment);
  note_missing(route);
  return route;
}

// The segment number and the route's name of a folder that is one segment.
std::pair<std::string, int> identity(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const std::string name = path.filename().string();
  if (const auto split = split_segment_name(name)) return {route_key(split->first), split->second};
  if (const auto number = segment_number(name)) return {name_of_folder(path.parent_path()), *number};
  return {route_key(name), 0};
}

Route route_of_file(const fs::path& file) {
  Segment segment;
  segment.folder = file.parent_path();
  const std::string name = file.filename().string();
  auto [route, number] = identity(segment.folder.empty() ? fs::path(".") : segment.folder);
  const size_t dashes = name.rfind("--");
  const auto owner = dashes == std::string::npos ? std::nullopt : split_segment_name(name.substr(0, dashes));
  if (owner) std::tie(route, number) = std::pair(route_key(owner->first), owner->second);
  segment.number = number;
  if (!add_file(file, owner ? name.substr(dashes + 2) : name, segment)) {
    const std::string kind = file.extension().string();
    const bool video = kind == ".hevc" || kind == ".ts" || kind == ".mp4" || kind == ".mkv" || kind == ".mov";
    (video ? segment.road_video : segment.rlog) = file;  // the reader will report what it is
  }
  return make_route(std::move(route), {{number, std::move(segment)}}, {});
}

Route only_route(std::map<std::string, Segments> routes, const std::string& where, const RouteName& range) {
  if (routes.size() > 1) {
    constexpr size_t kShown = 5;
    std::string paths;
    size_t shown = 0;
    for (const auto& [name, segments] : routes) {
      if (shown == kShown) break;
      const bool last = ++shown == std::min(routes.size(), kShown);
      paths += fmt::format("{}'{}'", shown == 1 ? "" : last ? " or " : ", ", (fs::path(where) / name).string());
    }
    fail("{}: holds {} routes; give one of them instead: {}{}", where, routes.size(), paths,
         routes.size() > kShown ? ", ..." : "");
  }
  auto& [name, segments] = *routes.begin();
  return make_route(name, std::move(segments), range);
}

Route route_of_folder(const fs::path& folder) {
  const auto [name, number] = identity(folder);
  if (auto segment = read_segment(folder, number)) return make_route(name, {{number, std::move(*segment)}}, {});
  auto routes = find_segments(folder);
  if (routes.empty()) {
    std::error_code none;
    if (fs::is_regular_file(folder / "summary.json", none)) {
      fail("{}: is a drive without a log, as drive --from-log makes it: name the recording itself", folder.string());
    }
    fail(
        "{}: holds no route: neither logs (rlog.zst, qlog.bz2 ...) nor video (fcamera.hevc, qcamera.ts ...), nor "
        "folders of segments (LOG--0, 0)",
        folder.string());
  }
  return only_route(std::move(routes), folder.string(), {});
}

// FOLDER/NAME: one of several routes whose segments lie in the same folder.
std::optional<Route> route_in_folder(const fs::path& path) {
  std::error_code error;
  if (path.filename().empty() || !fs::is_directory(path.parent_path(), error)) return std::nullopt;
  auto routes = find_segments(path.parent_path());
  const auto found = routes.find(route_key(path.filename().string()));
  if (found == routes.end()) return std::nullopt;
  return make_route(found->first, std::move(found->second), {});
}

// The device that recorded a log, as the log says; empty if it does not.
std::string dongle_of(const fs::path& log) {
  constexpr int64_t kFirstEvents = 1000;  // initData is the first of them
  std::string dongle;
  try {
    LogReader reader(log);
    while (dongle.empty() && reader.events() < kFirstEvents && reader.next()) {
      read_fields([&] {
        if (reader.known() && reader.event().isInitData()) dongle = reader.event().getInitData().getDongleId().cStr();
      });
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;  // the reader will report what is wrong with the log
  }
  return parse_route_name(dongle + "|2000-01-01--00-00-00") ? dongle : "";
}

// If the folder does not name the device, the log may.
void check_dongle(const RouteName& wanted, const std::string& where, Route& route) {
  const std::optional<RouteName> found = parse_route_name(route.name);
  if (wanted.dongle.empty() || !found || !found->dongle.empty()) return;
  for (const Segment& segment : route.segments) {
    const fs::path& log = route.log(segment);
    const std::string dongle = log.empty() ? "" : dongle_of(log);
    if (dongle.empty()) continue;
    if (dongle != wanted.dongle) {
      fail("{}: the {} in it is of the device {}, not {}, as {} says", where, wanted.log, dongle, wanted.dongle,
           log.string());
    }
    route.name = wanted.str();
    return;
  }
  route.notes.push_back(fmt::format("neither the folder nor a log says whether it is of the device {}", wanted.dongle));
}

fs::path data_folder(const RouteOptions& options) {
  if (!options.data.empty()) return options.data;
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : ".") / ".comma/media/0/realdata";
}

std::optional<Route> look_up(const RouteName& name, const fs::path& data) {
  std::error_code error;
  if (!fs::is_directory(data, error)) return std::nullopt;
  auto routes = find_segments(data, &name);
  // The bucket's layout, DONGLE/LOG/N.
  if (routes.empty() && !name.dongle.empty() && fs::is_directory(data / name.dongle, error)) {
    routes = find_segments(data / name.dongle, &name);
  }
  if (routes.empty()) return std::nullopt;
  Route route = only_route(std::move(routes), data.string(), name);
  check_dongle(name, data.string(), route);
  return route;
}

// Advice on how to get a missing route.
std::string remedy(const RouteName& name, const fs::path& data) {
  for (const std::string_view segment : ci_segments()) {
    const std::optional<RouteName> known = parse_route_name(segment);
    if (known->log != name.log || known->dongle != name.dongle) continue;
    const std::string path = fmt::format("{}/{}/{}/rlog.{}", known->dongle, known->log, *known->start,
                                         known->log.find('-') == 4 ? "bz2" : "zst");
    return fmt::format(
        "get it with: curl -fL --create-dirs -o '{}' https://commadataci.blob.core.windows.net/openpilotci/{}",
        (data / path).string(), path);
  }
  std::string from_device = fmt::format(
      "copy it from the device: scp -r 'comma@DEVICE:/data/media/0/realdata/{}--*' '{}'", name.log, data.string());
  if (name.dongle.empty()) return from_device;
  return fmt::format("download its files at https://connect.comma.ai/{}/{} or {}", name.dongle, name.log, from_device);
}

}  // namespace

const fs::path& Route::log(const Segment& segment) const {
  const bool qlog = logs == LogKind::decimated || (logs == LogKind::automatic && segment.rlog.empty());
  return qlog ? segment.qlog : segment.rlog;
}

Route find_route(const std::string& name_or_path, const RouteOptions& options) {
  std::error_code error;
  const fs::path path(name_or_path);
  if (name_or_path.find('\0') != std::string::npos) fail("a route's name holds a zero byte");
  if (fs::is_directory(path, error)) return route_of_folder(path);
  if (fs::exists(path, error)) return route_of_file(path);
  if (std::optional<Route> route = route_in_folder(path)) return *route;
  const std::optional<RouteName> name = parse_route_name(name_or_path);
  if (!name) {
    fail(
        "{}: there is no such file or folder, and it is no route's name (such as "
        "a2a0ccea32023010|2023-07-27--13-01-19, dongle/log/2:6/q or ci)",
        name_or_path);
  }
  const fs::path data = data_folder(options);
  if (std::optional<Route> route = look_up(*name, data)) return *route;
  fail("{}: not in {} (--data names another folder); {}", name->str(), data.string(), remedy(*name, data));
}

std::vector<Route> find_routes(const std::string& name_or_path, const RouteOptions& options) {
  std::error_code error;
  if (name_or_path != "ci" || fs::exists(name_or_path, error)) return {find_route(name_or_path, options)};
  const fs::path data = data_folder(options);
  std::vector<Route> routes;
  std::vector<std::string> missing;
  for (const std::string_view segment : ci_segments()) {
    const RouteName name = *parse_route_name(segment);
    if (auto route = look_up(name, data)) routes.push_back(std::move(*route));
    else missing.push_back(fmt::format("{} is not in {}; {}", segment, data.string(), remedy(name, data)));
  }
  if (routes.empty())
    fail("none of openpilot's {} test segments is there; the first: {}", ci_segments().size(), missing[0]);
  auto& notes = routes[0].notes;
  notes.insert(notes.end(), missing.begin(), missing.end());
  return routes;
}

std::vector<fs::path> logs_of(std::span<const Route> routes, const std::string& asked,
                              const std::function<void(const std::string&)>& say) {
  std::vector<fs::path> logs;
  for (const Route& route : routes) {
    if (!route.missing.empty()) say(fmt::format("{}: {} segments are not there", route.name, route.missing.size()));
    for (const Segment& segment : route.segments) {
      if (route.log(segment).empty()) say(fmt::format("{}: segment {} has no log", route.name, segment.number));
      else logs.push_back(route.log(segment));
    }
  }
  if (logs.empty()) fail("{}: the route has no log to read", asked);
  return logs;
}

}  // namespace sparkpilot::drive
