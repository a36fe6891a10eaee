// The program: its commands, and how it ends.
#include <new>

#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"

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

void add_commands(Program& program, CLI::App& app) {
  add_model(program, app);
  add_run(program, app);
  add_bench(program, app);
  add_zoo(program, app);
  add_ops(program, app);
  add_version(program, app);
}

// The help text that was asked for, or what is wrong with the command line.
int stopped(const Program& program, CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    app.exit(error);
    flush_output();
    return kDone;
  }
  // CLI11 misses a command before it sees what stands in its place.
  const std::vector<std::string> unknown = app.remaining(true);
  const std::string message = error.get_name() == "RequiredError" && !unknown.empty()
                                  ? fmt::format("no command is named \"{}\"", unknown[0])
                                  : error.what();
  return complain(program, one_line(message) + " (--help says more)", kBadInput);
}

int run(int argc, char** argv) {
  Program program;
  CLI::App app{"Runs openpilot's driving models, and any other ONNX model, on this machine.", "sparkpilot"};
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n"
      "  sparkpilot zoo build driving_vision --out models\n"
      "  sparkpilot bench models/driving_vision.onnx\n"
      "Exit codes: 0 done, 1 internal fault, 2 bad usage or input, 3 device fault, 4 a check failed.");
  add_commands(program, app);
  try {
    app.parse(argc, argv);
    const int code = program.action();
    flush_output();
    return code;
  } catch (const CLI::ParseError& error) {
    return stopped(program, app, error);
  } catch (const Error& error) {
    return complain(program, error.what(), exit_code_of(error.kind()));
  } catch (const std::bad_alloc&) {
    return complain(program, "out of memory", kBadInput);
  } catch (const std::exception& error) {
    return complain(program, error.what(), kInternal);
  }
}

}  // namespace
}  // namespace sparkpilot::cli

int main(int argc, char** argv) {
  try {
    sparkpilot::cli::clean_up_when_interrupted();
    return sparkpilot::cli::run(argc, argv);
  } catch (const std::exception&) {  // before there was anybody to say what
    return sparkpilot::cli::kInternal;
  }
}
