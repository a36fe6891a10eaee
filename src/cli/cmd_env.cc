// sparkpilot env: each setting, its value and its origin; the same choices for openpilot's own tools.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "ops/cuda/images.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EnvFlags {
  bool export_lines = false, markdown = false;
  std::string shell = "bash";
};

std::vector<ToolVariable> tools(const Program& program) {
  return tool_environment(program.settings["device"].value, this_device_facts(), variable("CUDA_VISIBLE_DEVICES"),
                          variable("CUDA_DEVICE_ORDER"));
}

// Where models run, as far as it does not depend on the model.
std::string engine_device(const Program& program) {
  if (cuda::images().empty()) return "cpu";
  return chosen_device(program.settings["device"].value, this_device_facts());
}

Json settings_json(const Program& program) {
  Json settings = Json::object(), environment = Json::object();
  for (const SettingValue& value : program.settings.values) {
    settings[std::string(value.setting->name)] = {{"value", value.value.empty() ? Json() : Json(value.value)},
                                                  {"origin", name(value.origin)},
                                                  {"from", value.from},
                                                  {"overruled", value.overruled}};
  }
  for (const ToolVariable& each : tools(program)) environment[each.name] = each.value;
  const ConfigFile& file = program.config_file;
  return {{"settings", settings},
          {"config_file", file.path.empty() ? Json() : Json(file.path.string())},
          {"config_file_state", file.state},
          {"device", chosen_device(program.settings["device"].value, this_device_facts())},
          {"engine_device", engine_device(program)},
          {"export", environment}};
}

void print_table(const Program& program) {
  Table table({"setting", "value", "from", "overruled"});
  for (const SettingValue& value : program.settings.values) {
    table.add({std::string(value.setting->name), value.value.empty() ? "not set" : shown(value.value), value.from,
               fmt::format("{}", fmt::join(value.overruled, ", "))});
  }
  print(table.str());
  const ConfigFile& file = program.config_file;
  print(fmt::format("\nconfiguration file: {}\n", file.path.empty()
                                                      ? "none: there is no home folder"
                                                      : one_line(file.path.string()) + " (" + file.state + ")"));
  const std::string device = chosen_device(program.settings["device"].value, this_device_facts());
  std::string why;
  if (device != "cpu" && engine_device(program) == "cpu")
    why = "; models run on the CPU: this program holds no GPU code";
  else if (device != "cpu" && program.settings["device"].value == "auto")
    why = fmt::format("; for models that pass the self-check there, {}", cuda::kRunOn);
  else if (device != "cpu") why = fmt::format("; {}", cuda::kRunOn);
  else if (const std::string& problem = this_device_facts().problem; !problem.empty())
    why = "; libcuda shows no GPU: " + problem;
  print(fmt::format("device: {}{}\n", device, one_line(why)));
  std::vector<std::string> variables;
  for (const ToolVariable& each : tools(program)) variables.push_back(each.name + "=" + shown(each.value));
  print(fmt::format("openpilot's tools (--export): {}\n", fmt::join(variables, ", ")));
}

// The table in docs/configuration.md.
std::string markdown() {
  std::string out =
      "| setting | what it means | values | default | flag | variables, the strongest first "
      "|\n|---|---|---|---|---|---|\n";
  for (const Setting& setting : all_settings()) {
    std::string variables;
    for (const SettingVariable& each : setting.variables) {
      variables += fmt::format("{}`{}`{}", variables.empty() ? "" : "; ", each.name,
                               each.values.empty() ? "" : ": " + std::string(each.values));
    }
    const auto code = [](std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); };
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", setting.name, setting.doc, setting.values,
                       code(setting.default_value), code(setting.flag), variables);
  }
  return out;
}

int env(const Program& program, const EnvFlags& flags) {
  if (flags.markdown) print(markdown());
  else if (flags.export_lines)
    print_data(shell_lines(tools(program), flags.shell == "fish" ? Shell::fish : Shell::bash));
  else if (program.json) print_json(settings_json(program));
  else print_table(program);
  return kDone;
}

}  // namespace

void add_env(Program& program, Command app) {
  const auto flags = std::make_shared<EnvFlags>();
  const Command command =
      add_command(program, app, "env", "print each setting, its value and where it was set",
                  "  sparkpilot env\n"
                  "  CUDA=0 sparkpilot env --json\n"
                  "  eval \"$(sparkpilot env --export)\"        (tinygrad and CUDA, with the same choice)\n"
                  "  sparkpilot env --export --shell fish | source\n"
                  "docs/configuration.md has the table of settings and the file's format.",
                  [&program, flags] { return env(program, *flags); });
  for (const Setting& setting : all_settings()) {
    if (!setting.flag.empty()) add_setting(program, command, std::string(setting.name));
  }
  const Option lines =
      command.add_flag("--export", flags->export_lines, "print shell lines that set openpilot's tools to this choice");
  add_choice(command, "--shell", flags->shell, {"bash", "fish"},
             "syntax of the lines: bash (and similar shells) or fish", "NAME")
      .needs(lines);
  command.add_flag("--markdown", flags->markdown, "print the table of settings in the form of docs/configuration.md")
      .excludes(lines);
  command.add_flag("--json", program.json, "print one JSON document on stdout").excludes(lines);
}

}  // namespace sparkpilot::cli
