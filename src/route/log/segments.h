// What lies in a folder: segments by route. Shared by the ways to find a route.
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
// "dongle|log" where the text is a route's name in any of its spellings, else the text itself.
std::string route_key(const std::string& text);

// The segment that this folder itself is; empty where it holds no file of a segment.
std::optional<Segment> read_segment(const std::filesystem::path& folder, int number);
// Puts a file where its name says; false where the name is not known.
bool add_file(const std::filesystem::path& file, const std::string& name, Segment& segment);
// Whether a segment's files are named as comma2k19 names them.
bool is_comma2k19(const Segment& segment);

// The name of the route that a folder of numbered segments holds, from its path.
std::string name_of_folder(const std::filesystem::path& folder);
// The routes below a folder: LOG--N, DONGLE|LOG--N, DONGLE|LOG/N and N folders, DONGLE|LOG--N--FILE files. Looks two
// levels deep. With `only`, those alone whose name may be that one. Fails (user) where the folder cannot be read.
std::map<std::string, Segments> scan_folder(const std::filesystem::path& folder, const RouteName* only = nullptr);

// A recorded file (or comma2k19's folder of poses) that lies in `folder`, or in a folder below it that is named as a
// segment's is or holds numbered segments: the first by name, empty where there is none. Files of segments' folders for
// which `made` says true are left out; it gets the segment's folder and the file's name. Fails (user) where a folder
// cannot be read; one that is not there holds nothing.
std::optional<std::filesystem::path> find_recording(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path& segment, const std::string& file)>& made);

}  // namespace sparkpilot::drive
