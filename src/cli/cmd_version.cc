// sparkpilot version: what this program is and what it sees of the machine.
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/terminal.h"
#include "hw/cpu.h"
#include "onnx/import.h"

namespace sparkpilot::cli {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

std::string title() { return fmt::format("sparkpilot {} ({})", SPARKPILOT_VERSION, kCompiler); }

int version(const Program& program) {
  const CpuFeatures& cpu = cpu_features();
  if (program.json) {
    print_json({{"version", SPARKPILOT_VERSION},
                {"compiler", kCompiler},
                {"newest_opset", kNewestOpset},
                {"devices", {"cpu"}},
                {"processor", cpu.model},
                {"isa", cpu.isa()},
                {"processors", cpu.logical}});
    return kDone;
  }
  print(title() + "\n");
  print(fmt::format("ONNX operator sets up to {}\n", kNewestOpset));
  print(fmt::format("cpu: {}, {} processors, {}\n", cpu.model.empty() ? "unknown model" : cpu.model, cpu.logical,
                    cpu.isa()));
  return kDone;
}

}  // namespace

void add_version(Program& program, Command app) {
  app.add_version_flag("-V,--version", title(), "print the version");
  const Command command =
      add_command(program, app, "version", "print the version and what the program knows about the machine",
                  "  sparkpilot version --json", [&program] { return version(program); });
  command.add_flag("--json", program.json, "print one JSON document on stdout");
}

}  // namespace sparkpilot::cli
