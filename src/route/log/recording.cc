#include "route/log/recording.h"

#include "base/error.h"
#include "route/log/segments.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;

void refuse_recording(const fs::path& folder, Writer writer) {
  const auto file = find_recording(folder, [&](const fs::path& segment, const std::string& name) {
    std::error_code ignored;
    if (writer == Writer::synth && fs::exists(segment / kSynthFile, ignored)) return true;
    // Through a link the file that it points to would be written, which may be a recording.
    return writer == Writer::drive && name == "rlog.zst" && fs::exists(segment / kResultFile, ignored) &&
           !fs::is_symlink(segment / name, ignored);
  });
  if (!file) return;
  fail("{}: holds a recording ({}), and nothing is written into one: choose another folder", folder.string(),
       file->lexically_relative(folder).string());
}

}  // namespace sparkpilot::drive
