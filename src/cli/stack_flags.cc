#include "cli/stack_flags.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "cli/terminal.h"
#include "stack/python.h"

namespace sparkpilot::cli {
namespace fs = std::filesystem;
namespace {

// On this machine a path is relative to the current folder; in another tree, to its root.
fs::path placed(const StackFlags& flags, const std::string& path) {
  if (flags.root != "/") return fs::path("/") / path;
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) fail("{}: the current folder: {}", path, error.message());
  return whole.lexically_normal();
}

stack::Audit run_audit(const Program& program, const StackFlags& flags, stack::AuditOptions options) {
  options.root = flags.root;
  if (flags.root == "/") {
    std::error_code none;  // the current folder may have been removed
    if (const fs::path here = fs::current_path(none); !none) options.here.push_back(here);
    const char* path = std::getenv("LD_LIBRARY_PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      const fs::path whole = fs::absolute(folder, none);
      if (!folder.empty() && !none) options.library_folders.push_back(whole);
    }
    if (const char* home = std::getenv("HOME"); home && *home == '/') options.home = home;
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
      if (const char* folder = std::getenv(name); folder && *folder) options.here.emplace_back(folder);
    }
    const char* programs = std::getenv("PATH");
    if (const auto environment = stack::environment_on_path(programs ? programs : ""))
      options.here.push_back(*environment);
  }
  Progress progress(!program.quiet, "looking for libraries");
  options.progress = [&](double done, const std::string& file) {
    progress.what(one_line(fs::path(file).filename().string()));
    progress.at(done);
  };
  return stack::audit(options);
}

// Before libraries are read, which can take half a minute.
void expect_known_gpu(const StackFlags& flags) {
  if (!flags.gpu.empty()) stack::parse_gpu(flags.gpu);
}

}  // namespace

void add_stack_flags(Command command, StackFlags& flags) {
  command
      .add_option("--gpu", flags.gpu,
                  "for this GPU: a name such as gb10 or h200, sm_121, 12.1; without it the machine's own")
      .type_name("GPU");
  add_list(command, "--path", flags.paths, "PATH", "look here instead of everywhere: a library, a wheel, a folder");
  add_list(command, "--python", flags.environments, "ENV",
           "look into this Python environment: its folder, python, or site-packages");
  command.add_option("--root", flags.root, "another machine's file tree; paths are then seen from inside")
      .type_name("DIR");
  command.add_option("--from", flags.from, "take what --json wrote before instead of looking").type_name("FILE");
}

stack::Audit audit_of(const Program& program, const StackFlags& flags) {
  expect_known_gpu(flags);
  const bool looks = !flags.paths.empty() || !flags.environments.empty() || flags.root != "/";
  if (!flags.from.empty() && looks)
    fail("--from tells what was found: --path, --python and --root have no effect with it");
  if (!flags.from.empty()) return stack::read_audit_json(read_file(flags.from), flags.from);
  stack::AuditOptions options;
  for (const std::string& path : flags.paths) options.paths.push_back(placed(flags, path));
  for (const std::string& path : flags.environments) options.environments.push_back(placed(flags, path));
  return run_audit(program, flags, std::move(options));
}

stack::Audit audit_of(const Program& program, const StackFlags& flags, const std::string& thing) {
  expect_known_gpu(flags);
  if (thing.ends_with(".json")) return stack::read_audit_json(read_file(thing), thing);
  stack::AuditOptions options;
  const fs::path path = placed(flags, thing);
  const stack::Tree tree(flags.root);
  const bool environment = tree.is_folder(path) && !tree.find((path / "lib/python3*/site-packages").string()).empty();
  (environment ? options.environments : options.paths).push_back(path);
  return run_audit(program, flags, std::move(options));
}

std::optional<stack::NamedGpu> target_of(const StackFlags& flags, const stack::Audit& audit) {
  if (flags.gpu.empty()) return audit.gpu;
  stack::NamedGpu gpu = stack::parse_gpu(flags.gpu);
  if (gpu.machine.empty()) gpu.machine = audit.machine;
  return gpu;
}

std::string described(const stack::NamedGpu& gpu) {
  return fmt::format("{} (compute capability {}{})", gpu.name, stack::text_of(gpu.capability),
                     gpu.machine.empty() ? "" : ", " + gpu.machine);
}

}  // namespace sparkpilot::cli
