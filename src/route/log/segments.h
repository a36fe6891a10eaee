// The contents of a folder: segments by route. Shared by the ways to find a route.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "route/log/route.h"

namespace sparkpilot::drive {

using Segments = std::map<int, Segment>;

// "2023-07-27--13-01-19--4": a route's name as given and a segment's number.
std::optional<std::pair<std::string, int>> split_segment_name(const std::string& text);
// A segment's number: up to six digits.
std::optional<int> segment_number(std::string_view text);
// "dongle|log" if the text is a route's name in any spelling, else the text itself.
std::string route_key(const std::string& text);

// The folder as a segment; empty if it holds no file of a segment.
std::optional<Segment> read_segment(const std::filesystem::path& folder, int number);
// Adds a file to the segment by its name; false if the name is unknown.
bool add_file(const std::filesystem::path& file, const std::string& name, Segment& segment);
// Whether a segment's files are named as comma2k19 names them.
bool is_comma2k19(const Segment& segment);

// The name of the route that a folder of numbered segments holds, from its path.
std::string name_of_folder(const std::filesystem::path& folder);
// The routes below a folder: LOG--N, DONGLE|LOG--N, DONGLE|LOG/N and N folders, DONGLE|LOG--N--FILE files. Searches two
// levels deep. With `only`, just those whose name may be that one. Fails (user) if the folder cannot be read.
std::map<std::string, Segments> find_segments(const std::filesystem::path& folder, const RouteName* only = nullptr);

// A recorded file (or comma2k19's folder of poses) in `folder`, or in a folder below it that is named like a segment or
// holds numbered segments: the first by name, empty if absent. Files for which `made`, called with the segment's
// folder and the file's name, returns true are ignored. Fails (user) if a folder cannot be read; a missing one holds
// nothing.
std::optional<std::filesystem::path> find_recording(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path& segment, const std::string& file)>& made);

}  // namespace sparkpilot::drive
