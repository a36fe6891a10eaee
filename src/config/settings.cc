#include "config/settings.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace sparkpilot {
namespace {

// Whether `text` is a number of at most `longest` digits.
bool is_number(std::string_view text, size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_device(std::string_view value) {
  return value == "auto" || value == "cpu" || value == "cuda" ||
         (value.starts_with("cuda:") && is_number(value.substr(5), 3));
}
bool is_bytes(std::string_view value) { return is_number(value, 15); }
bool is_count(std::string_view value) { return is_number(value, 9); }
bool is_path(std::string_view value) { return !value.empty() && value.find('\0') == std::string_view::npos; }
bool is_level(std::string_view value) { return is_number(value, 1); }

std::optional<std::string> device_of_disable_dgx(std::string_view value) {
  if (value == "1") return "cpu";
  return value == "0" ? std::optional<std::string>("") : std::nullopt;
}

std::optional<std::string> device_of_switch(std::string_view value) {
  if (value == "1") return "cuda";
  return value == "0" ? std::optional<std::string>("cpu") : std::nullopt;
}

std::optional<std::string> color_of_no_color(std::string_view) { return "never"; }

// One origin's value for a setting.
struct Source {
  Origin origin = Origin::none;
  std::string from;                  // as in SettingValue
  std::string who;                   // the same without the value, for messages
  std::string got;                   // the value, in words
  std::optional<std::string> value;  // the setting's value; empty if the text is not valid
  std::string_view expected;
};

// All values given for a setting, the one with the highest precedence first.
std::vector<Source> sources_of(const Setting& setting, const SettingsInput& input) {
  std::vector<Source> sources;
  const auto own = [&](const std::string& raw) {
    return accepts(setting, raw) ? std::optional<std::string>(raw) : std::nullopt;
  };
  if (const auto flag = input.flags.find(setting.name); flag != input.flags.end()) {
    const std::string who(setting.flag);
    sources.push_back({Origin::flag, who + " " + shown(flag->second), who, wrong_value(setting, flag->second),
                       own(flag->second), setting.values});
  }
  // SPARKPILOT_DEVICE=auto, as `env --export` writes, leaves the choice to OPENPILOT_DISABLE_DGX and
  // OPENPILOT_DGX_ENABLED where these are set, but not to CUDA, which is exported with it.
  std::optional<Source> detect;
  for (const SettingVariable& variable : setting.variables) {
    if (variable.name == "CUDA" && detect) sources.push_back(*std::exchange(detect, std::nullopt));
    const auto found = input.environment.find(variable.name);
    if (found == input.environment.end() || found->second.empty()) continue;
    const std::string who(variable.name);
    const std::optional<std::string> value = variable.meaning ? variable.meaning(found->second) : own(found->second);
    if (value && value->empty()) continue;
    const Source source{Origin::environment,
                        who + "=" + shown(found->second),
                        who,
                        wrong_value(setting, found->second),
                        value,
                        variable.values.empty() ? setting.values : variable.values};
    if (variable.name == "SPARKPILOT_DEVICE" && value == "auto") detect = source;
    else sources.push_back(source);
  }
  for (const FileSetting& line : input.lines) {
    if (line.name != setting.name) continue;
    const std::string where = fmt::format("{} line {}", shown(input.file), line.line);
    std::string raw = line.value.value_or("");
    if (raw.starts_with("~/") && !input.home.empty()) raw.replace(0, 1, input.home);
    const std::optional<std::string> value = line.value ? own(raw) : std::nullopt;
    const std::string got = line.value ? wrong_value(setting, raw) : "neither text nor a whole number";
    sources.push_back({Origin::file, where, fmt::format("{}: {}", where, setting.name), got, value, setting.values});
  }
  return sources;
}

}  // namespace

bool accepts(const Setting& setting, std::string_view value) {
  const auto& words = setting.words;
  return std::find(words.begin(), words.end(), value) != words.end() || (setting.accepts && setting.accepts(value));
}

std::span<const Setting> all_settings() {
  static const std::vector<Setting> table{
      {.name = "device",
       .flag = "--device",
       .value_name = "NAME",
       .values = "auto, cpu, cuda or cuda:N",
       .default_value = "auto",
       .doc = "where models run; auto: a usable NVIDIA GPU that passes the self-check with the model, else the CPU",
       .accepts = is_device,  // no list of words: "gpu" must not suggest cpu
       .variables = {{"SPARKPILOT_DEVICE"},
                     {"OPENPILOT_DISABLE_DGX", "1 (cpu) or 0 (no effect)", device_of_disable_dgx},
                     {"OPENPILOT_DGX_ENABLED", "1 (cuda), 0 (cpu) or unset (detect)", device_of_switch},
                     {"CUDA", "1 (cuda) or 0 (cpu)", device_of_switch}}},
      {.name = "memory-reserve",
       .flag = "--memory-reserve",
       .value_name = "BYTES",
       .values = "auto or a whole number",
       .default_value = "auto",
       .doc =
           "bytes of a GPU's memory that are left to others; auto: 2 GiB where it is also the processor's, else none",
       .words = {"auto"},
       .accepts = is_bytes,
       .variables = {{"SPARKPILOT_MEMORY_RESERVE"}}},
      {.name = "precision",
       .flag = "--precision",
       .value_name = "NAME",
       .values = "auto, model, fp32, fp16, bf16, fp8 or fp4",
       .default_value = "auto",
       .doc = "precision of computation; auto: fp16 on a GPU and fp32 on the CPU, model: as in the file",
       .words = {"auto", "model", "fp32", "fp16", "bf16", "fp8", "fp4"},
       .variables = {{"SPARKPILOT_PRECISION"}, {"OPENPILOT_DGX_PRECISION"}}},
      {.name = "threads",
       .flag = "--threads",
       .value_name = "N",
       .values = "auto or a whole number",
       .default_value = "auto",
       .doc = "threads on the CPU; 0: every processor, auto: the fastest number, found by trial",
       .words = {"auto"},
       .accepts = is_count,
       .variables = {{"SPARKPILOT_THREADS"}}},
      {.name = "tune",
       .flag = "--tune",
       .value_name = "WHEN",
       .values = "off, auto or full",
       .default_value = "auto",
       .doc = "whether kernels are chosen by timing; off: by rules of shape, auto: by earlier timings, and new ones on "
              "GPUs and on processors for which the rules were not measured, full: every node is timed",
       .words = {"off", "auto", "full"},
       .variables = {{"SPARKPILOT_TUNE"}}},
      {.name = "cpu",
       .flag = "",
       .value_name = "NAME",
       .values = "auto, avx512, avx2 or baseline",
       .default_value = "auto",
       .doc = "the CPU instructions that kernels may use; avx512: without VNNI and bf16, baseline: AVX2, or NEON "
              "without bf16 and i8mm",
       .words = {"auto", "avx512", "avx2", "baseline"},
       .variables = {{"SPARKPILOT_CPU"}}},
      {.name = "kernels",
       .flag = "",
       .value_name = "LIST",
       .values = "KERNEL, OP/KERNEL, no-KERNEL or no-OP/KERNEL, with commas between them; ops list names them",
       .default_value = "",
       .doc = "kernels to use wherever they accept; those with the prefix no- are never used; empty: the fastest",
       .accepts = is_path,
       .variables = {{"SPARKPILOT_KERNELS"}}},
      {.name = "models",
       .flag = "--models",
       .value_name = "DIR",
       .values = "a folder",
       .default_value = "",
       .doc = "openpilot's models for drive, if no flag names any",
       .accepts = is_path,
       .variables = {{"SPARKPILOT_MODELS"}}},
      {.name = "data",
       .flag = "--data",
       .value_name = "DIR",
       .values = "a folder",
       .default_value = "",
       .doc = "where routes are looked up by name; by default ~/.comma/media/0/realdata",
       .accepts = is_path,
       .variables = {{"SPARKPILOT_DATA"}, {"LOG_ROOT"}}},
      {.name = "peers",
       .flag = "",
       .value_name = "DIRS",
       .values = "folders, with colons between them",
       .default_value = "",
       .doc = "where adapters of other engines are looked up (--peer) before the folders that have them by default",
       .accepts = is_path,
       .variables = {{"SPARKPILOT_PEERS"}}},
      {.name = "python",
       .flag = "",
       .value_name = "FILE",
       .values = "a program",
       .default_value = "",
       .doc = "the Python that runs adapters of other engines, by default that of .venv next to the adapter's folder, "
              "else python3; and scripts of sim run --algorithm, by default python3",
       .accepts = is_path,
       .variables = {{"SPARKPILOT_PYTHON"}}},
      {.name = "verbose",
       .flag = "--verbose",
       .value_name = "N",
       .values = "a digit",
       .default_value = "0",
       .doc = "1: print more, such as what each pass changed; 2: also which settings are not the default",
       .accepts = is_level,
       .variables = {{"SPARKPILOT_VERBOSE"}, {"DEBUG"}}},
      {.name = "color",
       .flag = "",
       .value_name = "WHEN",
       .values = "auto, never or always",
       .default_value = "auto",
       .doc = "colours on stdout; auto: if it is a terminal",
       .words = {"auto", "never", "always"},
       .variables = {{"SPARKPILOT_COLOR"}, {"NO_COLOR", "anything (never)", color_of_no_color}}},
  };
  return table;
}

const Setting& find_setting(std::string_view name) {
  for (const Setting& setting : all_settings()) {
    if (setting.name == name) return setting;
  }
  fail_internal("no setting is named \"{}\"", name);
}

std::string_view name(Origin origin) {
  switch (origin) {
    case Origin::none: return "default";
    case Origin::file: return "file";
    case Origin::environment: return "environment";
    case Origin::flag: break;
  }
  return "flag";
}

const SettingValue& Settings::operator[](std::string_view name) const {
  for (const SettingValue& value : values) {
    if (value.setting->name == name) return value;
  }
  fail_internal("no setting is named \"{}\"", name);
}

Settings resolve_settings(const SettingsInput& input) {
  Settings settings;
  for (const Setting& setting : all_settings()) {
    SettingValue result{&setting, std::string(setting.default_value), Origin::none, "default", {}};
    std::vector<std::string> problems;
    for (const Source& source : sources_of(setting, input)) {
      if (source.value && result.origin != Origin::none) {
        if (*source.value != result.value) result.overruled.push_back(source.from);
        continue;
      }
      std::string problem;
      if (!source.value) {
        problem = fmt::format("{}: expected {}, got {}", source.who, source.expected, source.got);
      } else if (input.refusal) {
        if (const std::string why = input.refusal(setting, *source.value, settings); !why.empty()) {
          problem = fmt::format("{}: {}", source.from, why);
        }
      }
      if (problem.empty()) {
        result.value = *source.value;
        result.origin = source.origin;
        result.from = source.from;
      } else if (source.origin == Origin::flag) {
        fail("{}", problem);
      } else {
        problems.push_back(std::move(problem));
      }
    }
    const std::string holds =
        fmt::format("{} is {} ({})", setting.name, result.value.empty() ? "not set" : shown(result.value), result.from);
    for (const std::string& problem : problems) settings.warnings.push_back(fmt::format("{}; {}", problem, holds));
    settings.values.push_back(std::move(result));
  }
  return settings;
}

std::string wrong_value(const Setting& setting, std::string_view value) {
  if (setting.name == "precision" && value == "int8")
    return "\"int8\", in which `model quantize --int8` writes a model";
  return fmt::format("\"{}\"{}", shown(value), did_you_mean(value.substr(0, 80), setting.words));
}

std::string shown(std::string_view value) {
  constexpr size_t kLongest = 80;
  if (value.size() <= kLongest) return one_line(value);
  size_t end = kLongest;
  while (end > kLongest - 4 && (static_cast<unsigned char>(value[end]) & 0xc0) == 0x80)
    --end;  // not inside a character
  return one_line(value.substr(0, end)) + " ...";
}

}  // namespace sparkpilot
