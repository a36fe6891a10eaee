#include "cli/choices.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "hw/cpu.h"
#include "ir/kernel_choice.h"
#include "ops/cpu/limit.h"
#include "ops/cuda/images.h"
#include "passes/precision.h"

namespace sparkpilot::cli {
namespace {

std::string precision_refusal(const Program& program, const std::string& text, const std::string& device) {
  const std::optional<Precision> precision = parse_precision(text);
  return precision ? precision_refusal(program, *precision, device)
                   : "this version computes in fp32, fp16, bf16, fp8 and fp4";
}

std::string cpu_refusal(const std::string& level) {
  const std::vector<std::string_view> levels = cpu_levels();
  if (level == "auto" || std::find(levels.begin(), levels.end(), level) != levels.end()) return {};
  return "this processor has no " + level;
}

std::string kernels_refusal(const std::string& list) {
  try {
    const KernelChoice known(list);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string refusal(const Program& program, const Setting& setting, const std::string& value, const Settings& before) {
  if (setting.name == "cpu") return cpu_refusal(value);
  if (setting.name == "kernels") return kernels_refusal(value);
  const auto flags = program.flags_of.find(program.at);
  if (flags == program.flags_of.end() || !flags->second.contains(setting.name)) return {};
  if (setting.name == "device") return device_refusal(program, value);
  if (setting.name == "precision") return precision_refusal(program, value, before["device"].value);
  if (setting.name == "threads") return threads_refusal(value);
  return {};
}

// Resolves the settings from flags, environment and file by the rules of the settings table.
void resolve(Program& program) {
  const char* home = std::getenv("HOME");
  program.config_file = program.config.empty()
                            ? read_config_file(usual_config_file(std::getenv("XDG_CONFIG_HOME"), home), false)
                            : read_config_file(program.config, true);
  SettingsInput input;
  input.flags = program.given;
  for (const Setting& setting : all_settings()) {
    for (const SettingVariable& each : setting.variables) {
      const std::string name(each.name);
      if (const auto value = variable(name.c_str())) input.environment[name] = *value;
    }
  }
  input.file = program.config_file.path.string();
  input.lines = program.config_file.lines;
  input.home = home ? home : "";
  input.refusal = [&](const Setting& setting, const std::string& value, const Settings& before) {
    return refusal(program, setting, value, before);
  };
  program.settings = resolve_settings(input);
}

}  // namespace

Precision precision_of(const Program& program, const std::string& text, const std::string& device) {
  const std::optional<Precision> precision = parse_precision(text);
  if (!precision) {
    const Setting& setting = find_setting("precision");
    fail("--precision: expected {}, got {}", setting.values, wrong_value(setting, text));
  }
  if (const std::string why = precision_refusal(program, *precision, device); !why.empty()) fail("{}", why);
  return precision_on(device == "auto" && cuda::images().empty() ? "cpu" : device, *precision);
}

std::string precision_refusal(const Program& program, Precision precision, const std::string& device) {
  if (device.starts_with("cuda") || program.emulate) return {};
  try {
    check_precision(precision);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void tell_about_precision(const Program& program, Precision precision, int stored, const std::string& not_finite) {
  static std::mutex mutex;  // drives open sessions in several threads
  static std::set<std::string> told;
  const auto tell = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    if (told.insert(text).second) note(fmt::format("precision {}: {}", name(precision), text));
  };
  if (program.quiet || !stores_small(precision)) return;
  if (!not_finite.empty()) tell(fmt::format("weights of {} hold NaN or infinity and stay as they are", not_finite));
  if (stored == 0) return tell("no weights are rounded, as none of f32 are before the last layers");
  const bool four = precision == Precision::fp4;
  const char* const others = "the last layers before outputs stay in f32, on a GPU in f16";
  tell(fmt::format(
      "weights are rounded to {}; activations{} and {}{}", four ? "NVFP4 in products and E4M3 in convolutions" : "E4M3",
      four ? ", without --fp4-activations," : ", unless they are calibrated,", others, four ? "; experimental" : ""));
}

// Far more threads than processors are a typing error that would cost hours.
std::string threads_refusal(const std::string& threads) {
  constexpr int kMax = 4;  // per processor
  const int processors = available_processors();
  if (threads == "auto" || std::stoll(threads) <= kMax * processors) return {};
  return fmt::format("expected 0 to {} ({} times the number of processors, {})", kMax * processors, kMax, processors);
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string device_refusal(const Program& program, const std::string& device) {
  if (device == "auto" || device == "cpu") return {};
  // `env` chooses for openpilot's tools, too.
  if (cuda::images().empty() && program.command != "env") return "this program holds no GPU code";
  return device_missing(device, this_device_facts());
}

const DeviceFacts& this_device_facts() {
  static const DeviceFacts facts = [] {
    std::error_code ignored;
    DeviceFacts out = ask_device_facts();
    const std::optional<std::string> visible = variable("CUDA_VISIBLE_DEVICES");
    if (!out.problem.empty() && visible) out.problem += ", CUDA_VISIBLE_DEVICES=" + shown(*visible);
    out.comma_device = std::filesystem::exists("/TICI", ignored);  // openpilot's own test
    return out;
  }();
  return facts;
}

void read_settings(Program& program) {
  try {
    resolve(program);
  } catch (const Error& error) {
    if (launcher_rank() == 0) throw;
    let_first_process_tell();
    throw FailedElsewhere(error.kind(), error.what());  // the first process reports it
  }
  set_colours(program.settings["color"].value);
  if (const std::string& level = program.settings["cpu"].value; level != "auto") limit_kernels(level);

  if (launcher_rank() != 0) return;  // of several processes, only the first warns
  for (const auto* warnings : {&program.config_file.warnings, &program.settings.warnings}) {
    for (const std::string& text : *warnings) note("warning: " + text);
  }
  if (program.settings["verbose"].value < "2") return;
  for (const SettingValue& value : program.settings.values) {
    if (value.origin != Origin::none)
      note(fmt::format("{}: {} ({})", value.setting->name, shown(value.value), value.from));
  }
}

}  // namespace sparkpilot::cli
