// What every command of the program shares: exit codes, common flags, and the way a command is added.
//
// A command is one file, cmd_<name>.cc: help text, an options struct, one call into the library, one report. Adding it
// means a function here and a line in main.cc.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/comm.h"
#include "runtime/session.h"

namespace sparkpilot::cli {

enum ExitCode { kDone = 0, kInternal = 1, kBadInput = 2, kDevice = 3, kCheckFailed = 4 };

// Set while the command line is parsed; the action runs afterwards and returns the exit code.
struct Program {
  std::function<int()> action;
  std::string command;  // "model info", for messages
  bool json = false, quiet = false, verbose = false;
  std::unique_ptr<Comm> comm = {};  // of a command of several processes; the others wait until an error is told
};

// Adds a command under `parent`. `action` runs when the command line names it. `examples` end its help.
CLI::App* add_command(Program& program, CLI::App& parent, const std::string& name, const std::string& doc,
                      const std::string& examples, std::function<int()> action);

// What is wrong with a text that should be a number; empty where nothing is.
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

// An option whose value is a number: what is none is refused with what was expected.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& flag, Number& value, const std::string& doc,
                        const std::string& type = "N") {
  return command.add_option(flag, value, doc)->check(no_number<Number>, "")->type_name(type);
}

// An option whose value is one of these words.
CLI::Option* add_choice(CLI::App& command, const std::string& flag, std::string& value,
                        const std::vector<std::string>& words, const std::string& doc, const std::string& type);
// "expected day or night, got \"nihgt\" (did you mean night?)"
std::string no_choice(const std::string& text, const std::vector<std::string>& words);

// --json --quiet
void add_report_flags(Program& program, CLI::App& command);

// An option that may be given several times, one value each (or, without dashes, the words that no flag takes).
CLI::Option* add_list(CLI::App& command, const std::string& flag, std::vector<std::string>& values,
                      const std::string& type, const std::string& doc);

// Flags of everything that runs a model, in the same words everywhere.
struct RunFlags {
  std::string device = "auto", precision = "auto", passes, threads = "0";
  std::vector<std::string> dims, outputs;
  uint64_t seed = 1;
};
void add_graph_flags(CLI::App& command, RunFlags& flags);                     // --dim and --output only
void add_engine_flags(Program& program, CLI::App& command, RunFlags& flags);  // device, precision, threads, passes
void add_run_flags(Program& program, CLI::App& command, RunFlags& flags);     // both, and the seed
// The session options those flags stand for; threads apart, which `auto` leaves open. Fails (user) on a bad value.
SessionOptions session_options(const Program& program, const RunFlags& flags);
// Fails (user) where `threads` is negative or far more than there are processors: a slip that would take hours.
void check_threads(int64_t threads);
// Threads where a number is given; empty for "auto".
std::optional<int> thread_flag(const RunFlags& flags);

// What --passes list prints; every command that has the flag answers it, with or without a model.
int list_passes(const Program& program);

// "NAME=REST" as a pair; fails (user) naming the flag where there is no '='.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& flag);

// Fails (user) naming the flag where its value is below `least`.
void expect_at_least(const std::string& flag, int64_t value, int64_t least);

// Runs `work`; an error of the library that does not name the file is given its name.
void with_file(const std::string& file, const std::function<void()>& work);

// Size of a file that was written; empty for a device or a pipe, which keeps nothing.
std::optional<int64_t> file_bytes(const std::string& file);

// A tensor's name as a file name: characters that a file name cannot hold become `_`. Names that become the same get
// `_2`, `_3` ...; `used` remembers them.
std::string file_name_of(const std::string& tensor, std::map<std::string, int>& used);

// A route and where names are looked up, in the same words everywhere.
struct RouteFlags {
  std::string route, data;
};
void add_route_flags(CLI::App& command, RouteFlags& flags);

void add_model(Program& program, CLI::App& app);
void add_run(Program& program, CLI::App& app);
void add_bench(Program& program, CLI::App& app);
void add_zoo(Program& program, CLI::App& app);
void add_ops(Program& program, CLI::App& app);
void add_drive(Program& program, CLI::App& app);
void add_doctor(Program& program, CLI::App& app);
void add_route(Program& program, CLI::App& app);
void add_route_info(Program& program, CLI::App& group);
void add_route_dump(Program& program, CLI::App& group);
void add_route_synth(Program& program, CLI::App& group);
void add_monitor(Program& program, CLI::App& app);
void add_version(Program& program, CLI::App& app);

}  // namespace sparkpilot::cli
