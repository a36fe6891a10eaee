#include "doctor/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "doctor/check.h"
#include "hw/machine_json.h"

namespace sparkpilot {
namespace {

using doctor::human_bytes;
using nlohmann::json;

std::string joined(const std::vector<std::string>& parts, const char* separator = ", ") {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : separator) + part;
  }
  return out;
}

std::string plural(size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string cpu_line(const Cpu& cpu) {
  std::string kinds;
  bool named = cpu.kinds.size() > 1;
  for (const CoreKind& kind : cpu.kinds) {
    named = named && !kind.name.empty();
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", kind.count, kind.name);
  }
  std::string count;  // empty if the examined tree does not show the processors
  if (cpu.logical > 0) count = plural(static_cast<size_t>(cpu.logical), "processor");
  if (cpu.cores && *cpu.cores != cpu.logical) count += fmt::format(" on {} cores", *cpu.cores);
  if (named) count += " (" + kinds + ")";
  // Arm's model name consists of its kinds of cores.
  const bool repeats = named && cpu.model.find(cpu.kinds[0].name) != std::string::npos;
  return joined({repeats             ? ""
                 : cpu.model.empty() ? "unknown model"
                                     : cpu.model,
                 count, cpu.architecture, joined(cpu.isa, " ")});
}

std::string memory_line(const Memory& memory) {
  if (!memory.total) return {};
  std::string line = human_bytes(*memory.total);
  if (memory.swap_total.value_or(0) > 0) line += fmt::format(" and {} of swap space", human_bytes(*memory.swap_total));
  if (const auto left = memory.allocatable()) line += fmt::format(", {} can still be taken", human_bytes(*left));
  return line;
}

std::string gpu_line(const Gpu& gpu) {
  std::vector<std::string> parts = {!gpu.name.empty() ? gpu.name
                                    : gpu.pci_id      ? "NVIDIA " + *gpu.pci_id
                                                      : "unknown GPU"};
  if (gpu.capability)
    parts.push_back(fmt::format("compute capability {}.{}", gpu.capability->major, gpu.capability->minor));
  if (gpu.multiprocessors) parts.push_back(plural(static_cast<size_t>(*gpu.multiprocessors), "multiprocessor"));
  if (gpu.unified_memory == true) parts.emplace_back("unified memory");
  else if (gpu.memory_total) parts.push_back(human_bytes(*gpu.memory_total));
  std::vector<std::string> formats = {"fp32"};
  if (supports_fp16(gpu)) formats.emplace_back("fp16");
  if (supports_bf16(gpu)) formats.emplace_back("bf16");
  if (supports_fp8(gpu)) formats.emplace_back("fp8");
  if (supports_nvfp4(gpu)) formats.emplace_back("NVFP4");
  if (gpu.capability) parts.push_back(joined(formats, " "));
  return joined(parts);
}

std::string driver_line(const Driver& driver) {
  std::vector<std::string> parts;
  if (const auto& version = driver.version ? driver.version : driver.kernel_version) parts.push_back(*version);
  if (driver.cuda) parts.push_back(fmt::format("CUDA {}.{}", driver.cuda->major, driver.cuda->minor));
  return joined(parts);
}

std::string system_line(const Identity& identity) {
  std::vector<std::string> parts = {identity.operating_system,
                                    identity.kernel.empty() ? "" : "kernel " + identity.kernel};
  if (identity.dgx_os) parts.insert(parts.begin() + 1, "DGX OS " + *identity.dgx_os);
  if (identity.wsl) parts.push_back(fmt::format("WSL {}", *identity.wsl));
  if (identity.container) parts.push_back("in " + *identity.container);
  return joined(parts);
}

// `first`, then the words of `text`, wrapped at `columns` and aligned below the beginning of the text.
std::string wrapped(const std::string& first, std::string_view text, int columns) {
  constexpr size_t kMin = 24;  // a narrower text would not be more readable
  const size_t room =
      columns > 0 ? std::max(static_cast<size_t>(columns), first.size() + kMin) - first.size() : SIZE_MAX;
  std::string out = first;
  for (size_t used = 0; !text.empty();) {
    const size_t end = std::min(text.find(' '), text.size());
    if (used > 0 && used + 1 + end > room) {
      out += "\n" + std::string(first.size(), ' ');
      used = 0;
    }
    out += (used > 0 ? " " : "") + std::string(text.substr(0, end));
    used += end + (used > 0 ? 1 : 0);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "\n";
}

json check_json(const Finding& finding) {
  return {{"id", finding.id},     {"title", finding.title}, {"impact", impact_name(finding.impact)},
          {"seen", finding.seen}, {"why", finding.why},     {"fix", finding.fix}};
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::vector<std::string> describe(const Machine& machine) {
  std::vector<std::string> lines;
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) lines.push_back(fmt::format("{:<11}{}", name, text));
  };
  const std::string& system = machine.identity.system;
  const bool spark = is_dgx_spark(machine);
  std::vector<std::string> spoke;
  for (const SparkSign& sign : machine.identity.spark_signs) {
    if (sign.weight > 0 && std::find(spoke.begin(), spoke.end(), sign.source) == spoke.end())
      spoke.push_back(sign.source);
  }
  const std::string by = spark ? fmt::format(" (a DGX Spark by {})", joined(spoke)) : "";
  if (!system.empty() || spark) add("machine", (system.empty() ? "unknown" : system) + by);
  add("system", system_line(machine.identity));
  add("processor", cpu_line(machine.cpu));
  add("memory", memory_line(machine.memory));
  for (size_t i = 0; i < machine.gpus.size();) {
    const std::string line = gpu_line(machine.gpus[i]);
    size_t same = 1;
    while (i + same < machine.gpus.size() && gpu_line(machine.gpus[i + same]) == line) ++same;
    add("GPU", same == 1 ? line : fmt::format("{} x {}", same, line));
    i += same;
  }
  for (const std::string& gpu : machine.other_gpus) add("GPU", gpu + ", not used");
  if (machine.gpus.empty() && machine.other_gpus.empty()) add("GPU", "none: models run on the processor");
  add("driver", driver_line(machine.driver));
  const Gpu* gpu = best_gpu(machine);
  add("precision", fmt::format("{} is recommended{}", recommended_precision(gpu), gpu ? "" : " (on the processor)"));
  return lines;
}

std::string report_text(const Diagnosis& diagnosis, const ReportOptions& options) {
  std::string out;
  constexpr size_t kHeading = 11;
  for (const std::string& line : describe(diagnosis.machine))
    out += wrapped(line.substr(0, kHeading), line.substr(kHeading), options.columns);
  size_t counts[3] = {};
  for (const Finding& finding : diagnosis.findings) {
    ++counts[static_cast<size_t>(finding.impact)];
    const std::string_view impact = impact_name(finding.impact);
    out += fmt::format("\n{} {}\n", options.paint(fmt::format("{:<9}", impact), impact),
                       options.paint(finding.id, "heading"));
    out += wrapped("  seen     ", finding.seen, options.columns) +
           wrapped("  because  ", finding.why, options.columns) +
           fmt::format("  fix      {}\n", finding.fix);  // on one line, so that it can be copied
  }
  size_t good = 0, skipped = 0;
  for (const Passed& passed : diagnosis.passed) ++(passed.looked ? good : skipped);
  if (options.all) {
    out += "\n";
    for (const Passed& passed : diagnosis.passed) {
      const char* word = passed.looked ? "good" : "-";
      out += fmt::format("{} {:<24} {}\n", options.paint(fmt::format("{:<9}", word), word), passed.id, passed.seen);
    }
  }
  std::vector<std::string> found;
  for (const Impact impact : {Impact::fatal, Impact::slow, Impact::cosmetic}) {
    const size_t count = counts[static_cast<size_t>(impact)];
    if (count > 0) found.push_back(fmt::format("{} {}", count, impact_name(impact)));
  }
  out += fmt::format("\n{}: {}, {} good, {} not for this machine{}\n", plural(checks().size(), "check"),
                     found.empty() ? "nothing found" : joined(found), good, skipped,
                     options.all ? "" : " (-v lists them)");
  return out;
}

std::string verification_text(const Verifications& verified) {
  if (outcome(verified) == Verified::nothing) {
    return fmt::format("verify     nothing was verified: {}\n", verified.problem);
  }
  std::string out;
  for (const Verification& device : verified.devices) {
    out += fmt::format("verify     GPU {} ({}): ", device.index, device.name);
    if (!device.right) {
      out += device.problem + "\n";
      continue;
    }
    out += fmt::format("{} values right to the bit, start {:.0f} ms, run {:.2f} ms\n", device.values,
                       device.start_ms.value_or(0), device.run_ms.value_or(0));
  }
  if (!verified.problem.empty()) out += fmt::format("verify     not every GPU was verified: {}\n", verified.problem);
  return out;
}

json report_json(const Diagnosis& diagnosis) {
  json findings = json::array(), passed = json::array();
  for (const Finding& finding : diagnosis.findings) findings.push_back(check_json(finding));
  for (const Passed& check : diagnosis.passed) {
    passed.push_back({{"id", check.id}, {"outcome", check.looked ? "good" : "skipped"}, {"seen", check.seen}});
  }
  return {{"sparkpilot", SPARKPILOT_VERSION},
          {"machine", machine_json(diagnosis.machine)},
          {"findings", findings},
          {"passed", passed}};
}

json verification_json(const Verifications& verified) {
  json devices = json::array();
  for (const Verification& device : verified.devices) {
    json one = {{"index", device.index},   {"name", device.name},   {"right", device.right},
                {"values", device.values}, {"wrong", device.wrong}, {"problem", device.problem}};
    one["start_ms"] = device.start_ms ? json(*device.start_ms) : json();
    one["run_ms"] = device.run_ms ? json(*device.run_ms) : json();
    devices.push_back(std::move(one));
  }
  const Verified result = outcome(verified);
  const char* word = result == Verified::nothing ? "nothing_verified" : result == Verified::right ? "right" : "wrong";
  return {{"outcome", word}, {"problem", verified.problem}, {"devices", devices}};
}

std::string checks_markdown() {
  std::string out =
      "# What the doctor checks\n\nPrinted by `sparkpilot doctor --list --markdown` from the table of checks; do not "
      "edit. "
      "`fatal`: a part of the machine cannot be used. `slow`: it works, but slower or with less than it could. "
      "`cosmetic`: worth knowing. A check that does not apply to a machine says so (`sparkpilot doctor "
      "-v`).\n\n"
      "| check | impact | what should be | why it matters | how to fix it |\n|---|---|---|---|---|\n";
  for (const CheckInfo& check : checks()) {
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", check.id, impact_name(check.impact), cell(check.title),
                       cell(check.why), cell(check.fix));
  }
  return out;
}

}  // namespace sparkpilot
