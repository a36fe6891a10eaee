// Recordings are read and never written to.
#pragma once

#include <filesystem>

namespace sparkpilot::drive {

// Files that mark this program's output: a segment's results, and a synthetic segment.
inline constexpr const char* kResultFile = "segment.json";
inline constexpr const char* kSynthFile = ".synth";

enum class Writer { drive, synth };

// Fails (user) if `folder` holds a recording, naming one of its files: a segment's files, or segments' folders as
// find_route() knows them. The log in a segment's folder with results is not a recording; nor, for synth, is anything
// in a synthetic segment's folder. A missing folder holds nothing.
void refuse_recording(const std::filesystem::path& folder, Writer writer);

}  // namespace sparkpilot::drive
