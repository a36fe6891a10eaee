// Flags shared by the stack commands, and the audit that they request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "stack/audit_json.h"

namespace sparkpilot::cli {

struct StackFlags {
  std::string gpu, root = "/", from;
  std::vector<std::string> paths, environments;
};
void add_stack_flags(Command command, StackFlags& flags);

// An audit of what the flags name, with a progress bar on a terminal; or the recording in `from`.
stack::Audit audit_of(const Program& program, const StackFlags& flags);
// The same for `thing`, which may be a recording, a Python environment, or any file or folder.
stack::Audit audit_of(const Program& program, const StackFlags& flags, const std::string& thing);

// The GPU that an audit is for: the named one, else the audited machine's; empty if neither is known.
std::optional<stack::NamedGpu> target_of(const StackFlags& flags, const stack::Audit& audit);

// "GB10 (compute capability 12.1, aarch64)"
std::string described(const stack::NamedGpu& gpu);

}  // namespace sparkpilot::cli
