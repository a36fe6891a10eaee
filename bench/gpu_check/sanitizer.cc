// NVIDIA's compute-sanitizer over this program's words and the kernels that networks spend their time in.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "part.h"

namespace sparkpilot::gpu_check {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOps =
    "sparkpilot::Conv,sparkpilot::Gemm,MatMul,Attention,Softmax,LayerNormalization,ReduceMean,MaxPool,Gather,Concat,"
    "Resize,Add";
constexpr double kMinutes = 2;         // of the program under a tool, which reaches what it can in that time
constexpr double kSeconds = 170;       // until it is ended
constexpr size_t kMostLog = 64 << 10;  // bytes, the last ones

bool is_program(const fs::path& file) { return ::access(file.c_str(), X_OK) == 0 && !fs::is_directory(file); }

// In PATH, else where the toolkit is installed; empty: nowhere.
fs::path find_sanitizer() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && is_program(fs::path(folder) / "compute-sanitizer"))
      return fs::path(folder) / "compute-sanitizer";
  }
  std::vector<fs::path> found;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator("/usr/local", none)) {
    const fs::path file = entry.path() / "bin" / "compute-sanitizer";
    if (entry.path().filename().string().starts_with("cuda") && is_program(file)) found.push_back(file);
  }
  return found.empty() ? fs::path() : *std::ranges::max_element(found);
}

Json run_under(const fs::path& sanitizer, const std::string& tool, const Options& options,
               std::vector<std::string>& failures) {
  const ScratchFolder scratch;
  std::error_code none;
  // One process: the sanitizer looks at the one that it starts.
  ChildProcess child(
      {.command = {sanitizer.string(), "--tool", tool, "--error-exitcode", "9", "--launch-timeout", "60",
                   fs::read_symlink("/proc/self/exe", none).string(), "--parts", "words,ops", "--one-process", "--gpu",
                   std::to_string(options.ordinal), "--out", (scratch.path() / "out").string(), "--minutes",
                   fmt::format("{}", kMinutes), "--filter", kOps},
       .folder = scratch.path()});
  const int64_t end = now_ns() + static_cast<int64_t>(kSeconds * 1e9);
  std::string log, line, ended;
  for (;;) {
    const auto answer = child.read_line(line, static_cast<double>(end - now_ns()) * 1e-9);
    if (answer != ChildProcess::Answer::ok) {
      ended = answer == ChildProcess::Answer::ended  ? child.how_it_ended()
              : answer == ChildProcess::Answer::late ? fmt::format("ended after {:.0f} s", kSeconds)
                                                     : "printed a line that is too long";
      break;
    }
    log += line + "\n";
    if (log.size() > 2 * kMostLog) log.erase(0, log.size() - kMostLog);
  }
  if (log.size() > kMostLog) log.erase(0, log.size() - kMostLog);
  const std::string error = child.last_error();
  if (!error.empty()) log += error + "\n";
  if (ended == "exit code 9") failures.push_back(tool + " has findings: the log is in the results");
  else if (ended != "exit code 0" && ended != "exit code 4")
    failures.push_back(fmt::format("{}: {}{}", tool, ended, error.empty() ? "" : ": " + error));
  return {{"tool", tool}, {"ended", ended}, {"log", log}};
}

}  // namespace

Outcome check_by_sanitizer(const Options& options, const Json& go_on) {
  const fs::path sanitizer = find_sanitizer();
  if (sanitizer.empty()) {
    Outcome out;
    out.not_run = "compute-sanitizer is not on this machine";
    return out;
  }
  const std::vector<std::string> tools{"memcheck", "racecheck", "synccheck"};
  return each_of(options, go_on, "tools", tools, [&](size_t i, std::vector<std::string>& failures) {
    return run_under(sanitizer, tools[i], options, failures);
  });
}

}  // namespace sparkpilot::gpu_check
