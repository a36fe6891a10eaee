// sparkpilot version: what this program is and what it sees of the machine.
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "hw/cpu.h"
#include "onnx/import.h"
#include "ops/cuda/images.h"

namespace sparkpilot::cli {
namespace {

std::string title() { return fmt::format("sparkpilot {} ({})", program_version(), compiler_version()); }

int version(const Program& program) {
  const CpuFeatures& cpu = cpu_features();
  if (program.json) {
    print_json({{"version", program_version()},
                {"compiler", compiler_version()},
                {"newest_opset", kNewestOpset},
                {"processor", cpu.model},
                {"isa", cpu.isa()},
                {"processors", cpu.logical},
                {"gpu_code", cuda::image_targets()}});
    return kDone;
  }
  print(title() + "\n");
  print(fmt::format("ONNX operator sets up to {}\n", kNewestOpset));
  print(fmt::format("cpu: {}, {} processors, {}\n", cpu.model.empty() ? "unknown model" : cpu.model, cpu.logical,
                    cpu.isa()));
  if (cuda::images().empty()) print("GPU code: none, this program was built without nvcc\n");
  else print(fmt::format("GPU code: {} ({})\n", fmt::join(cuda::image_targets(), ", "), cuda::kRunOn));
  return kDone;
}

}  // namespace

void add_version(Program& program, Command app) {
  app.add_version_flag("-V,--version", title(), "print the version");
  const Command command =
      add_command(program, app, "version", "print the version, how the program was built, and the processor",
                  "  sparkpilot version --json", [&program] { return version(program); });
  command.add_flag("--json", program.json, "print one JSON document on stdout");
}

}  // namespace sparkpilot::cli
