// Shared by all commands: exit codes, common flags, and how a command is added.
//
// A command is one file, cmd_<name>.cc: help text, an options struct, one call into the library, one report. To add
// one, declare a function here and add a line in main.cc.
#pragma once

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/command_line.h"
#include "cli/config_file.h"
#include "comm/comm.h"
#include "config/settings.h"
#include "runtime/session.h"

namespace sparkpilot::cli {

enum ExitCode { kDone = 0, kInternal = 1, kBadInput = 2, kDevice = 3, kCheckFailed = 4 };

// Set while the command line is parsed; the action runs afterwards and returns the exit code.
struct Program {
  std::function<int()> action;
  std::string command;  // "model info", for messages
  bool json = false, quiet = false;
  bool emulate = false;             // --emulate: precisions that the processor lacks are computed all the same
  std::unique_ptr<Comm> comm = {};  // for commands of several processes; the others wait until an error is reported

  // Settings on the command line, and which of them each command has a flag for.
  std::map<std::string, std::string, std::less<>> given;
  std::map<const CLI::App*, std::set<std::string, std::less<>>> flags_of;
  const CLI::App* at = nullptr;  // the command that was called
  OptionWords words;             // of all options that take one of several
  std::string config;            // --config
  // Read before the action runs (cli/choices.h).
  ConfigFile config_file;
  Settings settings;
  bool verbose() const { return settings["verbose"].value != "0"; }
};

// Fails (user), "FLAG is for WHAT", if the command line has the flag.
void refuse_given(const Program& program, const std::string& flag, const std::string& what);

// Adds a command under `parent`. `action` runs when the command line names it. `examples` end its help.
Command add_command(Program& program, Command parent, const std::string& name, const std::string& doc,
                    const std::string& examples, std::function<int()> action);

// The flag of a setting: its value is in the program's settings when the action runs. `doc` replaces the table's text.
Option add_setting(Program& program, Command command, const std::string& setting, const std::string& doc = {});

// What is wrong with a text that should be a number; empty if it is one.
template <typename Number>
std::string no_number(const std::string& text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && stop == text.data() + text.size()) return {};
  const char* kind = std::is_floating_point_v<Number> ? "number"
                     : std::is_unsigned_v<Number>     ? "whole number of 0 or more"
                                                      : "whole number";
  const bool beyond = error == std::errc::result_out_of_range;
  return fmt::format("expected a {}{}, got \"{}\"", kind, beyond ? " that is not as large" : "", text);
}

// The whole number in `text`; fails (user) naming the flag if it is something else.
int64_t parse_number(const std::string& text, const std::string& flag);

// An option whose value is a number: anything else is refused with what was expected.
template <typename Number>
Option add_number(Command command, const std::string& flag, Number& value, const std::string& doc,
                  const std::string& type = "N") {
  return command.add_option(flag, value, doc).check(no_number<Number>).type_name(type);
}

// The same for one that need not be given.
template <typename Number>
Option add_number(Command command, const std::string& flag, std::optional<Number>& value, const std::string& doc,
                  const std::string& type = "N") {
  return command.add_option(flag, value, doc).check(no_number<Number>).type_name(type);
}

// An option whose value is one of these words.
Option add_choice(Command command, const std::string& flag, std::string& value, const std::vector<std::string>& words,
                  const std::string& doc, const std::string& type);
// "expected day or night, got \"nihgt\" (did you mean night?)"
std::string no_choice(const std::string& text, const std::vector<std::string>& words);

// --json --quiet
void add_report_flags(Program& program, Command command);

// An option that may be given several times, one value each (or, without dashes, the positional arguments).
Option add_list(Command command, const std::string& flag, std::vector<std::string>& values, const std::string& type,
                const std::string& doc);

// Flags of all commands that run a model, with the same texts everywhere. Device, precision and threads are settings.
struct RunFlags {
  std::string passes;
  std::vector<std::string> dims, shapes, outputs;
  std::string calibration;
  bool fp4_activations = false;
  uint64_t seed = 1;
};
void add_size_flags(Command command, RunFlags& flags);     // --dim and --shape
void add_graph_flags(Command command, RunFlags& flags);    // the former and --output
void add_device_flags(Program& program, Command command);  // --device and --memory-reserve
// What --precision takes.
inline constexpr char kPrecisionText[] =
    "auto (fp32; fp16 on a GPU), model (as in the file: 16-bit types by plain, slow kernels), fp32, fp16 (weights in "
    "16 "
    "bits), bf16, fp8 (weights in 8 bits) or fp4 (NVFP4 weights)";
void add_engine_flags(Program& program, Command command, RunFlags& flags);  // device, precision, threads, passes
void add_run_flags(Program& program, Command command, RunFlags& flags);     // both, and the seed
void add_passes_flag(Command command, RunFlags& flags);
// The sizes from --dim, the shapes from --shape. Fail (user) on a bad value.
std::map<std::string, int64_t> dims_of(const RunFlags& flags);
std::map<std::string, Shape> shapes_of(const RunFlags& flags);
// As SessionOptions has it.
std::optional<int64_t> memory_reserve(const Program& program);
// Says what a user of a GPU must know, and with --verbose why `auto` finds none; once a device.
void tell_about_device(const Program& program, const std::string& device);
// --calibration FILE and --fp4-activations, and the file's contents for a model if the options' precision takes them.
// Fails (user) on another model's file.
void add_calibration_flag(Command command, RunFlags& flags);
void add_fp4_activations_flag(Command command, RunFlags& flags);
bool takes_calibration(const RunFlags& flags, Precision precision);
void take_calibration(const RunFlags& flags, const std::string& model, SessionOptions& options);
// Fails (user) if a calibration is given and none of the precisions takes it, or --fp4-activations lacks one or fp4.
void expect_calibration_used(const RunFlags& flags, bool given, const std::vector<Precision>& precisions);
// The session options from these flags and the settings, except threads, which `auto` leaves open.
SessionOptions session_options(const Program& program, const RunFlags& flags);
// The setting `threads`, with 0 replaced by the number of processors; empty for "auto".
std::optional<int> chosen_threads(const Program& program);
// Sets a session's threads, and the file that keeps the result of "auto"; reports an error in that file.
void set_threads(const Program& program, SessionOptions& options);

// What --passes list prints; every command that has the flag answers it, with or without a model.
int list_passes(const Program& program);

// "NAME=REST" as a pair; fails (user) naming the flag if there is no '='.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& flag);

// Fails (user) naming the flag if its value is below `least`.
void expect_at_least(const std::string& flag, int64_t value, int64_t least);

// Options with paths, each after an input's name and '=' or alone: "img=a.npy" and "samples/" as pairs of the name,
// which may be empty, and the path. Fails (user) naming the flag.
std::vector<std::pair<std::string, std::string>> named_paths(const std::vector<std::string>& texts,
                                                             const std::string& flag);

// Size of a file that was written; empty for a device or a pipe.
std::optional<int64_t> file_bytes(const std::string& file);

// A tensor's name as a file name: characters that a file name cannot hold become `_`. Names that become the same get
// `_2`, `_3` ...; `used` remembers them.
std::string file_name_of(const std::string& tensor, std::map<std::string, int>& used);

// --adapter DIR[:SCALE] (repeatable); and the file with these adapters, as load_model() reads it.
void add_adapter_flag(Command command, std::vector<std::string>& adapters, const std::string& doc);
std::string adapted(std::string file, const std::vector<std::string>& adapters);

// A route and where names are looked up, with the same texts everywhere.
void add_route_flags(Program& program, Command command, std::string& route);

void add_adapter(Program& program, Command app);
void add_model(Program& program, Command app);
void add_model_quantize(Program& program, Command group);
void add_model_calibrate(Program& program, Command group);
void add_run(Program& program, Command app);
void add_bench(Program& program, Command app);
void add_compare(Program& program, Command app);
void add_peer(Program& program, Command app);
void add_zoo(Program& program, Command app);
void add_ops(Program& program, Command app);
void add_drive(Program& program, Command app);
void add_dataset(Program& program, Command app);
void add_dataset_evaluate(Program& program, Command group);
void add_sim(Program& program, Command app);
void add_doctor(Program& program, Command app);
void add_route(Program& program, Command app);
void add_route_info(Program& program, Command group);
void add_route_dump(Program& program, Command group);
void add_route_synth(Program& program, Command group);
void add_monitor(Program& program, Command app);
void add_env(Program& program, Command app);
void add_stack(Program& program, Command app);
void add_stack_audit(Program& program, Command group);
void add_stack_plan(Program& program, Command group);
void add_train(Program& program, Command app);
void add_completion(Program& program, Command app);
void add_man(Program& program, Command app);
void add_version(Program& program, Command app);

}  // namespace sparkpilot::cli
