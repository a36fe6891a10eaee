#include "route/log/segments.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

struct KnownFile {
  std::string_view name;
  fs::path Segment::*where;
};
// If two files have the same role, the better one comes first.
constexpr std::array kKnownFiles = {
    KnownFile{"rlog.zst", &Segment::rlog},
    KnownFile{"rlog.bz2", &Segment::rlog},
    KnownFile{"rlog", &Segment::rlog},
    KnownFile{"raw_log.bz2", &Segment::rlog},
    KnownFile{"qlog.zst", &Segment::qlog},
    KnownFile{"qlog.bz2", &Segment::qlog},
    KnownFile{"qlog", &Segment::qlog},
    KnownFile{"fcamera.hevc", &Segment::road_video},
    KnownFile{"video.hevc", &Segment::road_video},
    KnownFile{"ecamera.hevc", &Segment::wide_video},
    KnownFile{"dcamera.hevc", &Segment::driver_video},
    KnownFile{"qcamera.ts", &Segment::qcamera},
};

// Fails where a folder may not be searched: it is not known then what it holds.
bool is_file(const fs::path& path) {
  std::error_code error;
  const bool regular = fs::is_regular_file(path, error);
  if (error == std::errc::permission_denied) fail("{}: {}", path.parent_path().string(), error.message());
  return regular;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The names in a folder, sorted, so that results do not depend on the file system's order.
std::vector<std::string> names_in(const fs::path& folder) {
  constexpr size_t kMax = 1'000'000;
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (names.size() == kMax) fail("{}: holds more than {} files", folder.string(), kMax);
    names.push_back(at->path().filename().string());
  }
  if (error) fail("{}: {}", folder.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// Whether this is the name of a file that a device or comma2k19 records, or is still writing.
bool is_recorded(std::string_view name) {
  constexpr std::string_view kLock = ".lock";  // exists while a device still writes the file
  if (name.ends_with(kLock)) name.remove_suffix(kLock.size());
  if (name == "global_pose" || name == "processed_log") return true;
  return std::any_of(kKnownFiles.begin(), kKnownFiles.end(),
                     [&](const KnownFile& known) { return known.name == name; });
}

using Made = std::function<bool(const fs::path&, const std::string&)>;

std::optional<fs::path> recorded_in_segment(const fs::path& segment, const Made& made) {
  for (const std::string& name : names_in(segment)) {
    if (is_recorded(name) && !made(segment, name)) return segment / name;
  }
  return std::nullopt;
}

std::optional<fs::path> recorded_in_segments(const fs::path& folder, const Made& made) {
  for (const std::string& name : names_in(folder)) {
    if (!segment_number(name) || !is_folder(folder / name)) continue;
    if (auto file = recorded_in_segment(folder / name, made)) return file;
  }
  return std::nullopt;
}

bool may_be(const std::string& key, const RouteName* only) {
  if (!only) return true;
  const std::optional<RouteName> name = parse_route_name(key);
  return name && name->log == only->log &&
         (name->dongle.empty() || only->dongle.empty() || name->dongle == only->dongle);
}

// Numbered folders below `folder`.
Segments numbered_segments(const fs::path& folder) {
  Segments segments;
  for (const std::string& name : names_in(folder)) {
    const std::optional<int> number = segment_number(name);
    if (!number) continue;
    if (auto segment = read_segment(folder / name, *number)) segments.emplace(*number, std::move(*segment));
  }
  return segments;
}

}  // namespace

std::optional<int> segment_number(std::string_view text) {
  constexpr size_t kMaxDigits = 6;
  int number = 0;
  if (text.empty() || text.size() > kMaxDigits || text[0] == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::optional<std::pair<std::string, int>> split_segment_name(const std::string& text) {
  const size_t dashes = text.rfind("--");
  if (dashes == std::string::npos || dashes == 0) return std::nullopt;
  const std::optional<int> number = segment_number(std::string_view(text).substr(dashes + 2));
  if (!number) return std::nullopt;
  return std::pair(text.substr(0, dashes), *number);
}

std::string route_key(const std::string& text) {
  const std::optional<RouteName> name = parse_route_name(text);
  return name && !name->start && !name->slice ? name->str() : text;
}

std::optional<Segment> read_segment(const fs::path& folder, int number) {
  Segment segment;
  segment.number = number;
  segment.folder = folder;
  bool any = false;
  for (const KnownFile& known : kKnownFiles) {
    fs::path& at = segment.*known.where;
    if (!at.empty() || !is_file(folder / known.name)) continue;
    at = folder / known.name;
    any = true;
  }
  if (is_folder(folder / "global_pose")) segment.global_pose = folder / "global_pose";
  return any || !segment.global_pose.empty() ? std::optional(segment) : std::nullopt;
}

bool add_file(const fs::path& file, const std::string& name, Segment& segment) {
  for (const KnownFile& known : kKnownFiles) {
    if (known.name != name) continue;
    fs::path& at = segment.*known.where;
    if (at.empty() || name.ends_with(".zst")) at = file;
    return true;
  }
  return false;
}

bool is_comma2k19(const Segment& segment) {
  return segment.road_video.filename() == "video.hevc" || segment.rlog.filename() == "raw_log.bz2" ||
         !segment.global_pose.empty();
}

std::string name_of_folder(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "name/"
  const std::string name = path.filename().string();
  // The bucket's layout: DONGLE/LOG.
  const std::optional<RouteName> both = parse_route_name(path.parent_path().filename().string() + "|" + name);
  if (both && !both->dongle.empty() && !both->start && !both->slice) return both->str();
  return route_key(name);
}

std::map<std::string, Segments> find_segments(const fs::path& folder, const RouteName* only) {
  std::map<std::string, Segments> routes;
  const auto take = [&](const std::string& key, Segments segments) {
    if (!segments.empty()) routes[key].merge(segments);
  };
  bool numbered = false;
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    if (const auto split = split_segment_name(name)) {
      const std::string key = route_key(split->first);
      if (!may_be(key, only)) continue;
      if (auto segment = read_segment(path, split->second)) take(key, {{split->second, std::move(*segment)}});
    } else if (segment_number(name)) {
      numbered = true;
    } else if (const size_t dashes = name.rfind("--"); dashes != std::string::npos && is_file(path)) {
      const auto owner = split_segment_name(name.substr(0, dashes));
      Segment segment;
      if (!owner || !may_be(route_key(owner->first), only) || !add_file(path, name.substr(dashes + 2), segment))
        continue;
      Segment& at = routes[route_key(owner->first)][owner->second];
      at.number = owner->second;
      at.folder = folder;
      add_file(path, name.substr(dashes + 2), at);
    } else if (const auto inner = parse_route_name(name); inner && !inner->start && !inner->slice && is_folder(path)) {
      const std::string key = name_of_folder(path);
      if (may_be(key, only)) take(key, numbered_segments(path));
    }
  }
  if (numbered && may_be(name_of_folder(folder), only)) take(name_of_folder(folder), numbered_segments(folder));
  return routes;
}

std::optional<fs::path> find_recording(const fs::path& folder, const Made& made) {
  if (!is_folder(folder)) return std::nullopt;
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    const size_t dashes = name.rfind("--");
    const bool named = dashes != std::string::npos && split_segment_name(name.substr(0, dashes)) &&
                       is_recorded(std::string_view(name).substr(dashes + 2));  // DONGLE|LOG--N--FILE
    if (named || is_recorded(name)) return path;
    if (!is_folder(path)) continue;
    std::optional<fs::path> file;
    if (split_segment_name(name) || segment_number(name)) file = recorded_in_segment(path, made);
    else if (parse_route_name(name)) file = recorded_in_segments(path, made);
    if (file) return file;
  }
  return std::nullopt;
}

}  // namespace sparkpilot::drive
