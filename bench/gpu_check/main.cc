// gpu_check: settles on a GPU what the emulator cannot show. docs/cuda.md says how it is run and what each part shows.
//
//   gpu_check words ops networks faults limits bench --out DIR     parts, whose results go to DIR/gpu_check.json
//   gpu_check table FILE                                          such a file as Markdown
//   gpu_check record NAME --exit N --log FILE --out DIR           what another program found, as a part
//
// Exit codes: 0 all parts passed, 1 one failed, 2 bad usage, 3 no GPU or driver, 4 a part is unfinished: the
// next call goes on with it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/version.h"
#include "ops/cuda/images.h"
#include "part.h"
#include "results.h"

namespace sparkpilot::gpu_check {
namespace {

constexpr size_t kMostFailures = 200;  // that are written of a part

struct Flags {
  Options options;
  std::vector<std::string> parts;
  std::string out = "gpu_check_results", commit, log;
  bool again = false;
  int exit = 0;
};

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

std::string first_of(const Json& part) {
  const auto failures = part.find("failures");
  if (failures == part.end() || !failures->is_array() || failures->empty() || !(*failures)[0].is_string()) return "";
  return (*failures)[0].get<std::string>();
}

void say_outcome(std::string_view name, const Json& part, const char* when) {
  const bool passed = part.value("passed", Json()) == true;
  const std::string first = first_of(part);
  say(fmt::format("{:9} {}{}{}", name, passed ? "passed" : "FAILED", when,
                  first.empty() ? "" : ": " + one_line(first)));
}

Json record_of(Outcome outcome, double seconds) {
  const size_t count = outcome.failures.size();
  if (count > kMostFailures) {
    outcome.failures.resize(kMostFailures);
    outcome.failures.push_back(fmt::format("{} more", count - kMostFailures));
  }
  return {{"passed", count == 0},
          {"seconds", seconds},
          {"failures", outcome.failures},
          {"figures", std::move(outcome.figures)}};
}

Outcome run(const Part& part, const Options& options, const Json& go_on) {
  try {
    return part.run(options, go_on);
  } catch (const std::exception& error) {
    Outcome out;
    out.failures.emplace_back(error.what());
    return out;
  }
}

const Part& find_part(const std::string& name) {
  for (const Part& part : parts()) {
    if (part.name == name) return part;
  }
  std::string known;
  for (const Part& part : parts()) known += (known.empty() ? "" : ", ") + std::string(part.name);
  fail("no part is named {}: expected {}", name, known);
}

// Where a process ends in the middle of a part, whatever ended it, the next one goes on behind the item that it was at.
int run_parts(Flags& flags, char** argv) {
  std::vector<const Part*> chosen;
  for (const std::string& name : flags.parts) chosen.push_back(&find_part(name));
  if (chosen.empty()) {
    for (const Part& part : parts()) {
      if (part.by_default) chosen.push_back(&part);
    }
  }
  Results results(flags.out, flags.options.ordinal, flags.commit);
  bool passed = true, finished = true;
  // With --again, a new process that goes on with a part repeats that and those behind it only.
  const bool goes_on = getenv("GPU_CHECK_GOES_ON") != nullptr;
  bool again = flags.again && !goes_on;
  for (const Part* part : chosen) {
    const Json before = results.part(part->name);
    const bool known = before.is_object(), unfinished = known && before.contains("go_on");
    if (known && before.contains("figures") && !again) {
      say_outcome(part->name, before, " before");
      passed = passed && before.value("passed", Json()) == true;
      continue;
    }
    const bool continued = unfinished && !again;
    again = flags.again;
    const double seconds_before = continued ? before.value("seconds", 0.0) : 0;
    const int64_t start = now_ns();
    const auto seconds = [&] { return seconds_before + static_cast<double>(now_ns() - start) * 1e-9; };
    flags.options.save = [&](const Json& go_on) {
      const Json failures = go_on.value("failures", Json::array());
      results.set(part->name, {{"passed", false}, {"seconds", seconds()}, {"failures", failures}, {"go_on", go_on}});
    };
    if (!continued) flags.options.save({{"failures", {"ended the program"}}});
    Outcome outcome = run(*part, flags.options, continued ? before["go_on"] : Json());
    if (!outcome.go_on.is_null()) flags.options.save(outcome.go_on);
    if (outcome.out_of_time) {
      say(fmt::format("{:9} unfinished after {:.1f} s: call this again to go on", part->name, seconds()));
      finished = false;
      continue;
    }
    if (!outcome.go_on.is_null()) {
      setenv("GPU_CHECK_GOES_ON", "1", 1);
      execv("/proc/self/exe", argv);
      fail("{} cannot go on in a new process", part->name);
    }
    const Json record = record_of(std::move(outcome), seconds());
    results.set(part->name, record);
    say_outcome(part->name, record, fmt::format(" in {:.1f} s", seconds()).c_str());
    passed = passed && record["passed"] == true;
  }
  constexpr int kUnfinished = 4;
  return !passed ? 1 : finished ? 0 : kUnfinished;
}

// The end of a log is enough to see what was found.
int record(const Flags& flags, const std::string& name) {
  constexpr size_t kMostLog = 64 << 10;
  std::string log = flags.log.empty() ? "" : read_file(flags.log);
  if (log.size() > kMostLog) log = "...\n" + log.substr(log.size() - kMostLog);
  Results results(flags.out, flags.options.ordinal, flags.commit);
  Json failures = Json::array();
  if (flags.exit != 0) failures.push_back(fmt::format("exit code {}", flags.exit));
  results.set(name, {{"passed", flags.exit == 0}, {"failures", std::move(failures)}, {"figures", {{"log", log}}}});
  return 0;
}

std::string version_text() {
  std::string targets;
  for (const std::string_view target : cuda::image_targets()) targets += " " + std::string(target);
  return fmt::format("gpu_check of sparkpilot {}, GPU code:{}", program_version(), targets.empty() ? " none" : targets);
}

int run_program(int argc, char** argv) {
  Flags flags;
  Options& options = flags.options;
  std::string file, name, engines;
  CLI::App app("Checks and measures sparkpilot on an NVIDIA GPU.");
  std::string parts_help = "parts to run, all but peers and soak if none is named:";
  for (const Part& part : parts()) parts_help += fmt::format("\n  {}: {}", part.name, part.doc);
  app.add_option("parts", flags.parts, parts_help);
  app.add_option("--out", flags.out, "folder of gpu_check.json")->capture_default_str();
  app.add_option("--models", options.models, "folder with more ONNX models");
  app.add_option("--filter", options.filter,
                 "only ops and networks whose name contains one of these, with commas between");
  app.add_option("--gpu", options.ordinal, "number of the GPU, as CUDA counts")->check(CLI::Range(0, 1023));
  app.add_option("--minutes", options.minutes, "after which a part begins nothing new")->check(CLI::Range(0.0, 600.0));
  app.add_option("--soak-minutes", options.soak_minutes, "length of soak")->check(CLI::Range(0.0, 600.0));
  app.add_option("--rounds", options.rounds, "of runs in turns")->check(CLI::Range(1, 1000));
  app.add_option("--engines", options.engines, "for peers: names as in docs/peers.md")->delimiter(',');
  app.add_option("--python", options.python, "runs the adapters of peers");
  app.add_option("--commit", flags.commit, "of the sources, for the file");
  app.set_version_flag("--version", [] { return version_text(); });
  app.add_flag("--tiny", options.tiny, "tiny networks and little memory");
  app.add_flag("--again", flags.again, "also repeat parts that are done");
  CLI::App* const table = app.add_subcommand("table", "print a results file as Markdown");
  table->add_option("file", file, "gpu_check.json")->required();
  CLI::App* const recorded = app.add_subcommand("record", "add what another program found");
  recorded->add_option("name", name, "of the part")->required();
  recorded->add_option("--exit", flags.exit, "its exit code")->required();
  recorded->add_option("--log", flags.log, "what it printed");
  recorded->fallthrough();
  app.fallthrough(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.engines.empty()) {
    options.engines = {"pytorch:cuda",  "pytorch:cuda-compiled", "pytorch:cuda-graph",
                       "tinygrad:cuda", "onnxruntime:cuda",      "onnxruntime:tensorrt",
                       "trtexec"};
  }
  if (table->parsed()) return std::fputs(as_markdown(file).c_str(), stdout), 0;
  if (recorded->parsed()) return record(flags, name);
  return run_parts(flags, argv);
}

}  // namespace
}  // namespace sparkpilot::gpu_check

int main(int argc, char** argv) {
  try {
    return sparkpilot::gpu_check::run_program(argc, argv);
  } catch (const sparkpilot::Error& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return error.kind() == sparkpilot::ErrorKind::device ? 3 : error.kind() == sparkpilot::ErrorKind::user ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 1;
  }
}
