// The program: its commands, and how it ends.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/fit.h"
#include "cli/interrupt.h"
#include "cli/short_waits.h"
#include "cli/terminal.h"
#include "hw/cpu.h"
#include "sim/algorithm_worker.h"

namespace sparkpilot::cli {
namespace {

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user: return kBadInput;
    case ErrorKind::device: return kDevice;
    case ErrorKind::internal: break;
  }
  return kInternal;
}

int complain(const Program& program, std::string_view message, int code) {
  const std::string command = program.command.empty() ? "" : " " + program.command;
  note(fmt::format("sparkpilot{}: {}{}", command, code == kInternal ? "internal fault: " : "", message));
  return code;
}

void add_commands(Program& program, Command app) {
  add_model(program, app);
  add_run(program, app);
  add_bench(program, app);
  add_compare(program, app);
  add_peer(program, app);
  add_train(program, app);
  add_adapter(program, app);
  add_zoo(program, app);
  add_drive(program, app);
  add_dataset(program, app);
  add_sim(program, app);
  add_doctor(program, app);
  add_ops(program, app);
  add_route(program, app);
  add_monitor(program, app);
  add_env(program, app);
  add_stack(program, app);
  add_completion(program, app);
  add_man(program, app);
  add_version(program, app);
}

// Empty values and names are refused: they usually come from unset shell variables.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    option->check([](const std::string& value) { return value.empty() ? "an empty value" : std::string(); }, "");
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

// The last command named on the line, or the program itself if none is; sets `program.command` to its full name.
const CLI::App& named_command(Program& program, const CLI::App& app) {
  const CLI::App* at = &app;
  program.command.clear();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    program.command += (program.command.empty() ? "" : " ") + at->get_name();
  }
  return *at;
}

// The error for `word`, which nothing takes.
std::string unknown_word(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  if (word[0] == '-' && word.size() > 1) {
    const std::string option = word.substr(0, word.find('='));
    for (const CLI::Option* known : command.get_options()) {
      for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    }
    return fmt::format("no option is named {}{}", option, did_you_mean(option, names));
  }
  for (const CLI::App* known : command.get_subcommands({})) names.push_back(known->get_name());
  if (names.empty()) return fmt::format("\"{}\" was not expected", word);
  return fmt::format("no command is named \"{}\"{}", word, did_you_mean(word, names));
}

// "FILE is missing: ONNX model", for the first required argument that is missing.
std::string missing(const CLI::App& command, const std::string& otherwise) {
  std::string commands;
  const auto known = command.get_subcommands({});
  for (size_t i = 0; i < known.size(); ++i)
    commands += (i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + known[i]->get_name();
  if (!commands.empty()) return "one of its commands is missing: " + commands;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const std::string flag = option->get_positional() ? "" : option->get_name() + " ";
    return fmt::format("{}{} is missing: {}", flag, option->get_type_name(), option->get_description());
  }
  return otherwise;
}

// Turns "help bench" into "bench --help".
void ask_for_help(const CLI::App& app, std::vector<std::string>& words) {
  words.erase(words.begin());
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    if (word.starts_with('-')) continue;
    const auto known = at->get_subcommands({});
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto* c) { return c->get_name() == word; });
    if (found == known.end()) fail("{}", unknown_word(*at, word));
    at = *found;
  }
  words.emplace_back("--help");
}

// CLI11's help with the descriptions of options and commands wrapped at the terminal's width.
std::string fitted_help(const std::string& help) {
  constexpr size_t kDescriptions = 30;  // the column where they begin
  std::istringstream lines(help);
  std::string out;
  bool examples = false;  // are to be copied, so nothing from them on is wrapped
  for (std::string line; std::getline(lines, line);) {
    examples |= line == "Examples:";
    const bool described =
        !examples && line.starts_with("  ") && line.size() > kDescriptions && line[kDescriptions - 1] == ' ';
    if (described) {
      line = line.substr(0, kDescriptions) + wrapped(line.substr(kDescriptions), kDescriptions, stdout_columns());
    }
    out += line + "\n";
  }
  return out;
}

// Prints the help text that was asked for, or the error in the command line.
int stopped(Program& program, CLI::App& app, const CLI::ParseError& error) {
  if (launcher_rank() > 0) {  // the first process reports it
    if (error.get_exit_code() == 0) return kDone;
    let_first_process_tell();
    return kBadInput;
  }
  const CLI::App& command = named_command(program, app);
  if (error.get_exit_code() == 0) {
    std::ostringstream text;
    app.exit(error, text, text);
    print(fitted_help(text.str()));
    flush_output();
    return kDone;
  }
  std::string message = error.what();
  // CLI11 reports a missing command before it looks at the word in its place.
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  std::vector<std::string> unknown = app.remaining(true);
  unknown.erase(std::remove(unknown.begin(), unknown.end(), "--"), unknown.end());
  if (code == CLI::ExitCodes::RequiredError) message = missing(command, message);
  if ((code == CLI::ExitCodes::RequiredError || code == CLI::ExitCodes::ExtrasError) && !unknown.empty()) {
    // A wrong command is reported before options that it may have; elsewhere a wrong option before a word that may be
    // its value.
    const bool of_commands = !command.get_subcommands({}).empty();
    const auto option = of_commands ? unknown.begin()
                                    : std::find_if(unknown.begin(), unknown.end(),
                                                   [](const std::string& word) { return word.starts_with('-'); });
    const std::string& word = option == unknown.end() ? unknown[0] : *option;
    const bool options_alone = std::ranges::all_of(unknown, [](const std::string& w) { return w.starts_with('-'); });
    const std::string absent = of_commands && options_alone ? "; " + missing(command, message) : std::string();
    message = unknown_word(command, word);
    if (!message.ends_with("?)")) message += absent;
  }
  return complain(program, one_line(message) + (message.ends_with("?)") ? "" : " (--help says more)"), kBadInput);
}

// Runs the command; throws the errors of its work.
int obey(Program& program, CLI::App& app, char** argv, std::vector<std::string> words) {
  if (words.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kBadInput;
  }
  if (words[0] == "help") ask_for_help(app, words);
  std::reverse(words.begin(), words.end());  // CLI11 expects them reversed
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return stopped(program, app, error);
  }
  // The commands that run models: "compare" has a list of numbers of threads, "peer" is told how many.
  const auto& settings = program.flags_of[program.at];
  if (settings.contains("threads") || settings.contains("tune")) restart_with_short_waits(argv);
  read_settings(program);
  const int code = program.action();
  flush_output();
  return code;
}

int run(int argc, char** argv) {
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);  // before libcuda is loaded; else it numbers the fastest GPU 0
  Program program;
  CLI::App app{"Runs openpilot's driving models, and any other ONNX model, on this machine.", "sparkpilot"};
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n"
      "  sparkpilot zoo build driving_vision --out models\n"
      "  sparkpilot bench models/driving_vision.onnx\n"
      "sparkpilot help COMMAND, or COMMAND --help, says more about a command.\n"
      "Exit codes: 0 done, 1 internal fault, 2 bad usage or input, 3 device fault, 4 a check failed.");
  add_commands(program, Command(&app, &program.words));
  refuse_empty_values(app);
  try {
    require_processor(cpu_features());
    return obey(program, app, argv, {argv + 1, argv + argc});
  } catch (const FailedElsewhere& error) {
    return exit_code_of(error.kind());
  } catch (const Error& error) {
    return complain(program, error.what(), exit_code_of(error.kind()));
  } catch (const std::bad_alloc&) {
    return complain(program, "out of memory", kBadInput);
  } catch (const std::filesystem::filesystem_error& error) {  // such as a current folder that was removed
    return complain(program, one_line(error.what()), kBadInput);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again && error.code() != std::errc::not_enough_memory)
      return complain(program, error.what(), kInternal);
    return complain(program, "out of memory or threads", kBadInput);
  } catch (const std::exception& error) {
    return complain(program, error.what(), kInternal);
  }
}

}  // namespace
}  // namespace sparkpilot::cli

namespace {

// What is opened later must not take the numbers of streams that the caller closed: notes would be written into it.
// What takes them can be neither read nor written, so a report that nobody gets is an error as before.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  try {
    if (argc == 3 && std::string_view(argv[1]) == sparkpilot::sim::kAlgorithmWorker)
      return sparkpilot::sim::run_algorithm_worker(argv[2]);
    sparkpilot::cli::clean_up_when_interrupted();
    return sparkpilot::cli::run(argc, argv);
  } catch (const std::exception&) {  // before errors could be reported
    return sparkpilot::cli::kInternal;
  }
}
