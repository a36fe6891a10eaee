#include "cli/command.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/parallel.h"
#include "base/text.h"
#include "bench/calibration.h"
#include "cli/choices.h"
#include "cli/config_file.h"
#include "cli/terminal.h"
#include "hw/cpu.h"
#include "ops/cuda/images.h"
#include "passes/precision.h"
#include "passes/small_weights.h"
#include "runtime/tuning_file.h"

namespace sparkpilot::cli {
namespace {

// "none", or "no-cse,no-fold".
void take_passes(const std::string& text, std::set<std::string>& off) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, comma - begin);
    begin = comma + 1;
    if (word == "none") off.insert("all");
    else if (word.rfind("no-", 0) == 0) off.insert(word.substr(3));
    else if (word != "all") fail("--passes: expected list, all, none or no-PASS such as no-cse, got \"{}\"", word);
  }
}

Tune chosen_tune(const Program& program) {
  const std::string& tune = program.settings["tune"].value;
  return tune == "off" ? Tune::off : tune == "full" ? Tune::full : Tune::automatic;
}

std::filesystem::path tuning_file() { return usual_tuning_file(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME")); }

}  // namespace

void refuse_given(const Program& program, const std::string& flag, const std::string& what) {
  const std::vector<std::string> given = given_flags(*program.at);
  if (std::find(given.begin(), given.end(), flag) != given.end()) fail("{} is for {}", flag, what);
}

Command add_command(Program& program, Command parent, const std::string& name, const std::string& doc,
                    const std::string& examples, std::function<int()> action) {
  const Command command = parent.add_command(name, doc);
  if (!examples.empty()) command.footer("Examples:\n" + examples);
  command.add_option("--config", program.config, "read settings from FILE instead of the usual place")
      .type_name("FILE")
      .default_str("");
  command.callback([&program, command, action = std::move(action)] {
    program.command = command.full_name();
    program.at = command.app();
    program.action = action;
  });
  return command;
}

int64_t parse_number(const std::string& text, const std::string& flag) {
  const std::string wrong = no_number<int64_t>(text);
  if (!wrong.empty()) fail("{}: {}", flag, wrong);
  return std::stoll(text);
}

Option add_setting(Program& program, Command command, const std::string& setting, const std::string& doc) {
  const Setting& row = find_setting(setting);
  program.flags_of[command.app()].insert(setting);
  if (setting == "verbose") {
    return command.add_flag(
        "-v,--verbose",
        [&program](int64_t times) { program.given["verbose"] = std::to_string(std::min<int64_t>(times, 9)); },
        doc.empty() ? "print on stderr what each pass changed; twice: also which settings are not the default" : doc);
  }
  return command
      .add_option(
          std::string(row.flag), [&program, setting](const std::string& value) { program.given[setting] = value; },
          doc.empty() ? std::string(row.doc) : doc)
      .type_name(std::string(row.value_name))
      .default_str(std::string(row.default_value))
      .words(setting == "device" ? std::vector<std::string>{"auto", "cpu", "cuda"} : row.words);
}

void add_report_flags(Program& program, Command command) {
  command.add_flag("--json", program.json, "print one JSON document on stdout");
  command.add_flag("-q,--quiet", program.quiet, "no progress and no notes on stderr");
}

std::string no_choice(const std::string& text, const std::vector<std::string>& words) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i)
    list += fmt::format("{}{}", i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  return fmt::format("expected {}, got \"{}\"{}", list, text, did_you_mean(text, words));
}

Option add_choice(Command command, const std::string& flag, std::string& value, const std::vector<std::string>& words,
                  const std::string& doc, const std::string& type) {
  const auto check = [words](const std::string& text) {
    return std::find(words.begin(), words.end(), text) == words.end() ? no_choice(text, words) : std::string();
  };
  return command.add_option(flag, value, doc).check(check).type_name(type).words(words);
}

void add_adapter_flag(Command command, std::vector<std::string>& adapters, const std::string& doc) {
  add_list(command, "--adapter", adapters, "DIR[:SCALE]", doc);
}

std::string adapted(std::string file, const std::vector<std::string>& adapters) {
  for (const std::string& adapter : adapters) file = with_adapter(file, parse_adapter_name(adapter)).string();
  return file;
}

Option add_list(Command command, const std::string& flag, std::vector<std::string>& values, const std::string& type,
                const std::string& doc) {
  const Option option = command.add_option(flag, values, doc).type_name(type).default_str("");
  if (flag[0] == '-') option.one_value_each();
  return option;
}

void add_size_flags(Command command, RunFlags& flags) {
  add_list(command, "--dim", flags.dims, "NAME=N", "size of a named open dimension, such as batch=4 (repeatable)");
  add_list(command, "--shape", flags.shapes, "INPUT=NxN",
           "shape of an input with open dimensions, such as tokens=1x512 (repeatable)");
}

void add_graph_flags(Command command, RunFlags& flags) {
  add_size_flags(command, flags);
  add_list(command, "--output", flags.outputs, "NAME",
           "compute only this output, sliced as in NumPy: 'logits[:, -1, :]' (repeatable; several parts of one output "
           "are named by these texts)");
}

void add_device_flags(Program& program, Command command) {
  add_setting(program, command, "device", "auto, cpu, cuda or cuda:N");
  add_setting(program, command, "memory-reserve");
}

void add_engine_flags(Program& program, Command command, RunFlags& flags) {
  add_device_flags(program, command);
  add_setting(program, command, "precision", kPrecisionText);
  add_setting(program, command, "threads");
  add_setting(program, command, "tune");
  add_passes_flag(command, flags);
  add_setting(program, command, "verbose");
}

void add_passes_flag(Command command, RunFlags& flags) {
  // With `list`, a command needs neither a model nor a route; the options' own checks come later.
  command.add_option("--passes", flags.passes, "none, no-PASS,no-PASS..., or list to print them")
      .type_name("LIST")
      .on_value([command](const std::string& value) {
        if (value == "list") command.require_no_options();
      });
}

void add_calibration_flag(Command command, RunFlags& flags) {
  command
      .add_option("--calibration", flags.calibration,
                  "of --precision fp8: what `model calibrate` wrote; products' inputs are rounded to 8 bits, too")
      .type_name("FILE");
  add_fp4_activations_flag(command, flags);
}

void add_fp4_activations_flag(Command command, RunFlags& flags) {
  command.add_flag("--fp4-activations", flags.fp4_activations,
                   "of --precision fp4 with --calibration: products' inputs are rounded to NVFP4, too");
}

bool takes_calibration(const RunFlags& flags, Precision precision) {
  return precision == Precision::fp8 || (precision == Precision::fp4 && flags.fp4_activations);
}

void take_calibration(const RunFlags& flags, const std::string& model, SessionOptions& options) {
  const bool wanted = !flags.calibration.empty() && takes_calibration(flags, options.passes.precision);
  options.passes.largest = wanted ? calibrated(flags.calibration, model) : std::map<std::string, double>();
}

void expect_calibration_used(const RunFlags& flags, bool given, const std::vector<Precision>& precisions) {
  if (flags.fp4_activations && !given) fail("--fp4-activations needs --calibration FILE, which has the largest values");
  if (flags.fp4_activations && std::ranges::count(precisions, Precision::fp4) == 0)
    fail("--fp4-activations has no effect without --precision fp4");
  if (given && std::ranges::none_of(precisions, [&](Precision each) { return takes_calibration(flags, each); }))
    fail("--calibration has no effect without --precision fp8, or fp4 with --fp4-activations");
}

void add_run_flags(Program& program, Command command, RunFlags& flags) {
  add_graph_flags(command, flags);
  add_engine_flags(program, command, flags);
  add_number(command, "--seed", flags.seed, "seed of the random inputs");
}

std::map<std::string, int64_t> dims_of(const RunFlags& flags) {
  std::map<std::string, int64_t> dims;
  for (const std::string& text : flags.dims) {
    const auto [name, size] = split_assignment(text, "--dim");
    const std::string flag = "--dim " + name;
    expect_at_least(flag, parse_number(size, flag), 0);
    if (!dims.emplace(name, parse_number(size, flag)).second) fail("--dim: \"{}\" is given twice", name);
  }
  return dims;
}

std::map<std::string, Shape> shapes_of(const RunFlags& flags) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : flags.shapes) {
    const size_t equals = text.rfind('=');  // a tensor's name may contain one
    if (equals == std::string::npos || equals == 0)
      fail("--shape: expected INPUT=SIZES such as x=1x512, got \"{}\"", text);
    const std::string name = text.substr(0, equals), flag = "--shape " + name;
    std::vector<int64_t> sizes;
    for (size_t begin = equals + 1; begin <= text.size();) {
      const size_t end = std::min(text.find('x', begin), text.size());
      const std::string size = text.substr(begin, end - begin);
      if (!no_number<uint64_t>(size).empty())
        fail("{}: expected sizes such as 1x512, got \"{}\"", flag, text.substr(equals + 1));
      sizes.push_back(parse_number(size, flag));
      begin = end + 1;
    }
    Shape shape;
    try {
      shape = Shape(std::span<const int64_t>(sizes));
    } catch (const Error& error) {
      fail("{}: {}", flag, error.what());
    }
    if (!shapes.emplace(name, shape).second) fail("--shape: \"{}\" is given twice", name);
  }
  return shapes;
}

void tell_about_device(const Program& program, const std::string& device) {
  static std::set<std::string> told;
  if (program.quiet || !told.insert(device.substr(0, 4)).second) return;
  if (device.starts_with("cuda")) note(fmt::format("CUDA: {} (docs/cuda.md)", cuda::kRunOn));
  if (device != "auto" || !program.verbose()) return;
  if (const DeviceFacts& facts = this_device_facts(); facts.gpus.empty()) {
    note(fmt::format("device auto: the CPU, there is no usable NVIDIA GPU{}",
                     facts.problem.empty() ? "" : " (" + facts.problem + ")"));
  } else if (cuda::images().empty()) {
    note("device auto: the CPU, this program was built without GPU code");
  }
}

std::optional<int64_t> memory_reserve(const Program& program) {
  const std::string& text = program.settings["memory-reserve"].value;
  return text == "auto" ? std::nullopt : std::optional(parse_number(text, "memory-reserve"));
}

SessionOptions session_options(const Program& program, const RunFlags& flags) {
  SessionOptions options;
  options.device = program.settings["device"].value;
  tell_about_device(program, options.device);
  options.memory_reserve = memory_reserve(program);
  options.passes.precision = precision_of(program, program.settings["precision"].value, options.device);
  options.passes.emulate = program.emulate;
  options.kernels = program.settings["kernels"].value;
  options.tune = chosen_tune(program);
  if (options.tune != Tune::off) options.tuning_file = tuning_file();
  if (!program.quiet) options.say = [](const std::string& line) { note(line); };
  options.dims = dims_of(flags);
  options.shapes = shapes_of(flags);
  options.outputs = flags.outputs;
  take_passes(flags.passes, options.passes.off);
  options.passes.observe = [&program](std::string_view pass, const Graph& graph, int changes) {
    if (program.verbose() && changes > 0) note(fmt::format("pass {}: {}", pass, count_of(changes, "change")));
    const Precision precision = parse_precision(pass).value_or(Precision::model);
    if (stores_small(precision) && !program.quiet)
      tell_about_precision(program, precision, changes, not_finite_weights(graph));
  };
  return options;
}

std::optional<int> chosen_threads(const Program& program) {
  const std::string& threads = program.settings["threads"].value;
  if (threads == "auto") return std::nullopt;
  const int64_t count = parse_number(threads, "threads");
  return count > 0 ? static_cast<int>(count) : available_processors();
}

void set_threads(const Program& program, SessionOptions& options) {
  options.threads = chosen_threads(program).value_or(0);
  if (options.threads == 0) options.tuning_file = tuning_file();
  if (options.tuning_file.empty()) return;
  const TuningFile file(options.tuning_file, cpu_features().model);
  if (!program.quiet && !file.ignored().empty()) note(file.ignored());
}

int list_passes(const Program& program) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  Table table({"pass", "what it does", ""});
  for (const Pass& pass : all_passes()) {
    list.push_back({{"name", pass.name}, {"doc", pass.doc}, {"optional", pass.optional}});
    table.add({std::string(pass.name), std::string(pass.doc), pass.optional ? "" : "always on"});
  }
  if (program.json) print_json({{"passes", list}});
  else print(table.str());
  return kDone;
}

std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& flag) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) fail("{}: expected NAME=VALUE, got \"{}\"", flag, text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> named_paths(const std::vector<std::string>& texts,
                                                             const std::string& flag) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : texts) {
    if (text.find('=') == std::string::npos) pairs.emplace_back("", text);
    else pairs.push_back(split_assignment(text, flag));
  }
  return pairs;
}

void expect_at_least(const std::string& flag, int64_t value, int64_t least) {
  if (value < least) fail("{}: expected at least {}, got {}", flag, least, value);
}

std::optional<int64_t> file_bytes(const std::string& file) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  return error ? std::nullopt : std::optional(static_cast<int64_t>(bytes));
}

std::string file_name_of(const std::string& tensor, std::map<std::string, int>& used) {
  constexpr size_t kLongest = 200;  // of the 255 bytes that file systems allow; the rest is for ".npy" and a number
  std::string name = tensor.substr(0, kLongest);
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 32 || c == 127 ||
        std::string_view("/\\:*?\"<>|").find(c) != std::string::npos) {
      c = '_';
    }
  }
  if (name.empty() || name == "." || name == "..") name.assign(std::max<size_t>(name.size(), 1), '_');
  const int before = used[name]++;
  return before == 0 ? name : file_name_of(fmt::format("{}_{}", name, before + 1), used);
}

}  // namespace sparkpilot::cli
