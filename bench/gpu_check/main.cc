// gpu_check: settles on a GPU what the emulator cannot show. docs/cuda.md says how it is run and what each part shows.
//
//   gpu_check [--parts words,ops] [--out DIR]     parts, whose results go to DIR/gpu_check.json
//   gpu_check table FILE                          such a file as Markdown
//
// Exit codes: 0 all parts passed, 1 one failed, 2 wrong usage or a file that cannot be read or written, 3 no GPU or
// driver, 4 the time was over: the next call goes on; 128 + N: signal N ended it, the next call goes on.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/scratch_folder.h"
#include "base/version.h"
#include "ops/cuda/images.h"
#include "part.h"
#include "process.h"
#include "results.h"

namespace sparkpilot::gpu_check {
namespace {

constexpr size_t kMostFailures = 200;  // that are written of a part

struct Flags {
  Options options;
  std::vector<std::string> parts;
  std::string out = "gpu_check_results", commit = "unknown";
  double minutes = 0, item_minutes = 9;
  bool soak = false, again = false, one_process = false;
};

void say_outcome(std::string_view name, const Json& part, const std::string& when) {
  const Json& failures = part["failures"];
  say(fmt::format("{:9} {}{}{}", name, part["passed"] == true ? "passed" : "FAILED", when,
                  failures.empty() ? "" : ": " + one_line(failures[0].get<std::string>())));
}

// What decides which items a part has.
Json asked_of(const Part& part, const Options& options) {
  return {{"filter", part.takes_filter ? options.filter : ""},
          {"models", part.takes_filter ? options.models.string() : ""},
          {"tiny", options.tiny}};
}

void keep_most(std::vector<std::string>& failures) {
  const size_t count = failures.size();
  if (count <= kMostFailures) return;
  failures.resize(kMostFailures);
  failures.push_back(fmt::format("{} more", count - kMostFailures));
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

std::string version_text() {
  std::string targets;
  for (const std::string_view target : cuda::image_targets()) targets += " " + std::string(target);
  return fmt::format("gpu_check of sparkpilot {}, GPU code:{}", program_version(), targets.empty() ? " none" : targets);
}

std::vector<const Part*> chosen_parts(const Flags& flags) {
  std::vector<const Part*> chosen;
  for (const std::string& name : flags.parts) chosen.push_back(&find_part(name));
  for (const Part& part : parts()) {
    if (flags.parts.empty() && part.by_default) chosen.push_back(&part);
  }
  const Part* const soak = &find_part("soak");
  if (flags.soak && std::ranges::find(chosen, soak) == chosen.end()) chosen.push_back(soak);
  return chosen;
}

enum class Ended { passed, failed, unfinished, not_run, in_a_new_process };

// Where a process ends in the middle of a part, whatever ended it, the next one goes on behind the item that it was at.
Ended run_part(const Part& part, Options& options, Results& results, Watch& watch) {
  const std::string name(part.name);
  const Json asked = asked_of(part, options);
  Json before = results.part(name);
  if (!before.is_null() && before["asked"] != asked) {
    say(fmt::format("{:9} was run with another --filter, --models or --tiny: begun anew", name));
    before = Json();
  }
  if (before.contains("figures")) {
    say_outcome(name, before, " before");
    return before["passed"] == true ? Ended::passed : Ended::failed;
  }
  const bool continued = !before.is_null();
  const double seconds_before = continued ? before["seconds"].get<double>() : 0;
  const int64_t start = now_ns();
  const auto seconds = [&] { return seconds_before + static_cast<double>(now_ns() - start) * 1e-9; };
  const auto unfinished = [&](const Json& go_on) {
    return Json{
        {"passed", false}, {"seconds", seconds()}, {"asked", asked}, {"failures", go_on["failures"]}, {"go_on", go_on}};
  };
  const auto done = [&](const Outcome& outcome) {
    const Json record{{"passed", outcome.failures.empty()},
                      {"seconds", seconds()},
                      {"asked", asked},
                      {"failures", outcome.failures},
                      {"figures", outcome.figures}};
    results.set(name, record);
    say_outcome(name, record, fmt::format(" in {:.1f} s", seconds()));
    return outcome.failures.empty() ? Ended::passed : Ended::failed;
  };
  const Json go_on = continued ? before["go_on"] : Json();
  // Without items there is nothing to go on behind.
  if (continued && !go_on.contains("items") && !go_on.contains("figures"))
    return done({.failures = go_on["failures"].get<std::vector<std::string>>()});
  std::exception_ptr not_saved;  // a full disk is no fault of the part
  options.save = [&](const Json& if_ended, const Json& if_stopped) {
    watch.begin_item();
    try {
      results.set(name, unfinished(if_ended), if_stopped.is_null() ? Json() : unfinished(if_stopped));
    } catch (...) {
      not_saved = std::current_exception();
      throw;
    }
  };
  if (!continued) options.save({{"failures", {kEnded}}}, nullptr);
  Outcome outcome = run(part, options, go_on);
  if (not_saved) std::rethrow_exception(not_saved);
  keep_most(outcome.failures);
  if (!outcome.not_run.empty()) {
    results.set(name, nullptr);
    say(fmt::format("{:9} not run: {}", name, outcome.not_run));
    return Ended::not_run;
  }
  if (outcome.go_on.is_null()) return done(outcome);
  options.save(outcome.go_on, outcome.go_on);
  if (!outcome.out_of_time) return Ended::in_a_new_process;
  say(fmt::format("{:9} unfinished after {:.1f} s: call this again to go on", name, seconds()));
  return Ended::unfinished;
}

// `goes_on`: in the place of a process that was ended.
int run_parts(Flags& flags, bool goes_on) {
  const std::vector<const Part*> chosen = chosen_parts(flags);
  std::optional<Results> kept;  // longer than `watch`, which ends a start that takes too long
  Watch watch(flags.options.until, static_cast<int64_t>(flags.item_minutes * 60e9));
  Results& results = kept.emplace(flags.out, flags.options.ordinal, flags.commit, say);
  watch.keep(results);
  if (flags.again && !goes_on) {
    for (const Part* part : chosen) {
      if (!results.part(part->name).is_null()) results.set(part->name, nullptr);
    }
  }
  bool failed = false, unfinished = false;
  for (const Part* part : chosen) {
    if (now_ns() >= flags.options.until) {
      say(fmt::format("{:9} not begun: the time is over, call this again to go on", part->name));
      unfinished = true;
      continue;
    }
    const Ended ended = run_part(*part, flags.options, results, watch);
    if (ended == Ended::in_a_new_process) return kGoOn;
    failed |= ended == Ended::failed;
    unfinished |= ended == Ended::unfinished;
  }
  say(fmt::format("results: {} ({})", results.file().string(), version_text()));
  return unfinished ? kUnfinished : failed ? 1 : 0;
}

// The exit code of `work`; errors become one line.
int guarded(const std::function<int()>& work) {
  try {
    return work();
  } catch (const Error& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return error.kind() == ErrorKind::device ? 3 : error.kind() == ErrorKind::user ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 1;
  }
}

int check(Flags& flags) {
  chosen_parts(flags);  // an unknown name is said before anything is done
  if (!flags.options.models.empty() && !std::filesystem::is_directory(flags.options.models))
    fail("--models: {} is no folder", flags.options.models.string());
  block_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not be as long is then an error that is said
  flags.options.until = flags.minutes > 0 ? now_ns() + static_cast<int64_t>(flags.minutes * 60e9) : kNever;
  const FolderLock lock(flags.out);
  // Where the processes that compute put theirs, however they end.
  const ScratchFolder scratch;
  setenv("TMPDIR", scratch.path().c_str(), 1);
  const auto work = [&](bool goes_on) { return guarded([&] { return run_parts(flags, goes_on); }); };
  if (!flags.one_process)
    return supervise(std::filesystem::path(flags.out) / "gpu_check.json", flags.options.until, work);
  const int code = work(false);
  return code == kGoOn ? kUnfinished : code;
}

int run_program(int argc, char** argv) {
  Flags flags;
  Options& options = flags.options;
  std::string file;
  CLI::App app("Checks and measures sparkpilot on an NVIDIA GPU (docs/cuda.md).");
  std::string parts_help = "with commas between; all but soak if none is named:";
  for (const Part& part : parts()) parts_help += fmt::format("\n  {}: {}", part.name, part.doc);
  app.add_option("--parts", flags.parts, parts_help)->delimiter(',');
  app.add_option("--out", flags.out, "folder of gpu_check.json")->capture_default_str();
  app.add_option("--minutes", flags.minutes, "after which this call ends; the next one goes on (exit code 4)")
      ->check(CLI::Range(0.01, 600.0));
  app.add_option("--item-minutes", flags.item_minutes, "after which an op, a network or a part without any has failed")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 600.0));
  app.add_option("--models", options.models, "folder with more ONNX models");
  app.add_option("--filter", options.filter,
                 "only ops and networks whose name contains one of these, with commas between");
  app.add_flag("--soak", flags.soak, "the part soak, too");
  app.add_option("--soak-minutes", options.soak_minutes, "length of soak")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 600.0));
  app.add_option("--gpu", options.ordinal, "number of the GPU, as CUDA counts")->check(CLI::Range(0, 1023));
  app.add_option("--rounds", options.rounds, "of runs in turns")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--engines", options.engines, "for peers: names as in docs/peers.md")->delimiter(',');
  app.add_option("--python", options.python, "runs the adapters of peers");
  app.add_option("--commit", flags.commit, "of the sources, for the file");
  app.add_flag("--tiny", options.tiny, "tiny networks and little memory");
  app.add_flag("--again", flags.again, "forget what is known of these parts");
  app.add_flag("--one-process", flags.one_process,
               "for debuggers and profilers: no other process goes on after a fault");
  app.set_version_flag("--version", [] { return version_text(); });
  app.footer(
      "Exit codes: 0 all parts passed, 1 one failed, 2 wrong usage or a file that cannot be read or written,\n"
      "3 no GPU or driver, 4 the time was over, 128 + N ended by signal N. After 4 and signals the next call goes on.");
  CLI::App* const table = app.add_subcommand("table", "print a results file as Markdown");
  table->add_option("file", file, "gpu_check.json")->required();
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
  return table->parsed() ? (std::fputs(as_markdown(file).c_str(), stdout), 0) : check(flags);
}

}  // namespace
}  // namespace sparkpilot::gpu_check

int main(int argc, char** argv) {
  using namespace sparkpilot::gpu_check;
  return guarded([&] { return run_program(argc, argv); });
}
