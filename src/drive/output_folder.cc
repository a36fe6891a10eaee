#include "drive/output_folder.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "route/log/recording.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

// Results of an earlier run can be driven again, but not into the same folder.
void refuse_route(const Route& route, const fs::path& out) {
  for (const Segment& segment : route.segments) {
    const fs::path from = segment.folder.empty() ? "." : segment.folder;
    for (const fs::path& to : {out, out / segment_folder(route, segment)}) {
      std::error_code not_there;
      if (fs::equivalent(from, to, not_there)) {
        fail("{}: holds the recording that is driven ({}): choose another folder", out.string(), from.string());
      }
    }
  }
}

void refuse_other_results(const Route& route, const fs::path& out) {
  const std::string log = segment_folder(route, route.segments[0]);
  const std::string mine = log.substr(0, log.rfind("--") + 2);
  std::error_code not_there;
  for (const auto& entry : fs::directory_iterator(out, not_there)) {
    const std::string name = entry.path().filename().string();
    if (fs::exists(entry.path() / kResultFile, not_there) && !name.starts_with(mine)) {
      fail("{}: holds the results of another route ({}): choose another folder", out.string(), name);
    }
  }
}

// A run deletes the previous run's summary.
void refuse_other_summary(const fs::path& out) {
  const fs::path file = out / "summary.json";
  std::error_code not_there;
  if (!fs::is_regular_file(file, not_there)) return;
  const auto summary = parse_json_or_discard(read_file(file));
  if (!summary.is_object() || !summary.contains("sparkpilot")) {
    fail("{}: would be overwritten, and is not a summary of this program: choose another folder", file.string());
  }
}

}  // namespace

void check_output_folder(const Route& route, const DriveOptions& options) {
  for (const fs::path& folder : {options.out, options.dump}) {
    if (folder.empty()) continue;
    refuse_route(route, folder);
    refuse_recording(folder, Writer::drive);
  }
  refuse_other_results(route, options.out);
  refuse_other_summary(options.out);
}

}  // namespace sparkpilot::drive
