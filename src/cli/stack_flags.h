// Flags that the stack commands share, and the audit that they ask for.
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
void add_stack_flags(CLI::App& command, StackFlags& flags);

// What the flags name, looked through with a bar on a terminal; or what `from` recorded.
stack::Audit audit_of(const Program& program, const StackFlags& flags);
// The same of one thing that may be a recording, a Python environment, or any file or folder.
stack::Audit audit_of(const Program& program, const StackFlags& flags, const std::string& thing);

// Whom an audit is for: the GPU that was named, else the one that the audited machine has; empty where neither is
// known.
std::optional<stack::NamedGpu> target_of(const StackFlags& flags, const stack::Audit& audit);

// "GB10 (compute capability 12.1, aarch64)"
std::string described(const stack::NamedGpu& gpu);

}  // namespace sparkpilot::cli
