#include "cli/variants.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/choices.h"
#include "passes/precision.h"

namespace sparkpilot::cli {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::vector<std::string> split_list(const std::string& text, const std::string& flag) {
  std::vector<std::string> items = split(text, ',');
  for (const std::string& item : items) {
    if (item.empty()) fail("{}: an empty item in \"{}\"", flag, text);
    if (std::count(items.begin(), items.end(), item) > 1) fail("{}: {} is given twice", flag, item);
  }
  return items;
}

VariantPrecision variant_precision(const Program& program, const std::string& text, const std::string& device) {
  if (text == "int8") return {Precision::fp32, true};
  if (!parse_precision(text)) {
    std::vector<std::string> words = find_setting("precision").words;
    words.emplace_back("int8");
    fail("--precision: {}", no_choice(text, words));
  }
  return {precision_of(program, text, device), false};
}

std::vector<std::string> precisions_of(const Program& program, const std::string& flag,
                                       const std::vector<std::string>& devices) {
  if (!flag.empty()) return split_list(flag, "--precision");
  const std::string& setting = program.settings["precision"].value;
  return {setting == "auto" && devices.size() > 1 ? "fp32" : setting};
}

std::vector<std::string> devices_of(const Program& program, const std::string& flag) {
  if (flag.empty()) return {program.settings["device"].value};
  std::vector<std::string> devices = split_list(flag, "--device");
  for (const std::string& device : devices) {
    const Setting& setting = find_setting("device");
    if (!accepts(setting, device)) fail("--device: expected {}, got \"{}\"", setting.values, device);
    if (const std::string why = device_refusal(program, device); !why.empty()) fail("--device {}: {}", device, why);
  }
  return devices;
}

void set_device(const Program& program, SessionOptions& options, const std::string& device) {
  tell_about_device(program, device);
  options.device = device;
}

void add_device_list(Program& program, Command command, std::string& list) {
  add_setting(program, command, "memory-reserve");
  program.flags_of[command.app()].insert("device");
  command
      .add_option(
          "--device",
          [&program, &list](const std::string& text) {
            const bool several = text.find(',') != std::string::npos;
            list = several ? text : std::string();
            if (!several) program.given["device"] = text;
          },
          "auto, cpu, cuda or cuda:N; or several of them, such as cpu,cuda")
      .type_name("LIST")
      .default_str("auto");
}

std::vector<std::string> thread_counts_of(const Program& program, const std::string& flag) {
  if (!flag.empty()) return split_list(flag, "--threads");
  return {program.settings["threads"].value};
}

int threads_of(const std::string& count) {
  if (count == "auto") return 0;
  const int64_t number = parse_number(count, "--threads");
  expect_at_least("--threads", number, 0);
  if (const std::string wrong = threads_refusal(count); !wrong.empty()) fail("--threads {}: {}", count, wrong);
  return number > 0 ? static_cast<int>(number) : available_processors();
}

std::string threads_name(const std::string& count) { return count + (count == "1" ? " thread" : " threads"); }

std::string variant_name(const std::vector<std::pair<bool, std::string>>& words) {
  std::string name;
  for (const auto& [is_in, word] : words) {
    if (is_in) name += (name.empty() ? "" : " ") + word;
  }
  return name;
}

void add_precision_list(Program& program, Command command, std::string& list) {
  program.flags_of[command.app()].insert("precision");
  command
      .add_option(
          "--precision",
          [&program, &list](const std::string& text) {
            const bool several = text.find(',') != std::string::npos;
            list = several ? text : std::string();
            if (!several) program.given["precision"] = text;
          },
          std::string(kPrecisionText) + "; or several of them, such as fp32,bf16")
      .type_name("LIST")
      .default_str("auto");
}

std::vector<std::string> file_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) {
    const std::filesystem::path path = std::filesystem::path(file).lexically_normal();
    names.push_back((path.has_filename() ? path : path.parent_path()).filename().string());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<ptrdiff_t>(i)) {
      return files;
    }
  }
  return names;
}

}  // namespace sparkpilot::cli
