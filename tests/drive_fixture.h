// Shared by the tests of `sparkpilot drive`: a route of two short segments, small models, and runs that can be stopped.
#pragma once

#include <fcntl.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "drive_route.h"
#include "program.h"
#include "shared_folder.h"

namespace sparkpilot {

namespace fs = std::filesystem;
using nlohmann::json;

inline constexpr int kSegmentFrames = 24;

inline std::string in_quotes(const fs::path& path) { return "'" + path.string() + "'"; }

// The program as a background process; `launcher` starts it.
class Background {
 public:
  explicit Background(const std::vector<std::string>& arguments, std::vector<std::string> launcher = {}) {
    forget_settings();
    pid_ = fork();
    if (pid_ != 0) return;
    for (const int each : {SIGINT, SIGTERM, SIGHUP}) ::signal(each, SIG_DFL);  // a background job's shell ignores some
    const int nothing = open("/dev/null", O_RDWR);
    for (const int to : {0, 1, 2}) dup2(nothing, to);
    launcher.emplace_back(SPARKPILOT_PROGRAM);
    launcher.insert(launcher.end(), arguments.begin(), arguments.end());
    std::vector<char*> words;
    for (std::string& word : launcher) words.push_back(word.data());
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
  }
  ~Background() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) { ::kill(pid_, number); }
  bool ended() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
    return ended_;
  }
  // The exit code, or 128 plus the signal.
  int wait() {
    if (!ended_) waitpid(pid_, &status_, 0);
    ended_ = true;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }
  // False if the program ended, or a minute passed, before the file existed.
  bool wait_for(const fs::path& file) {
    for (int i = 0; i < 6000 && !fs::exists(file); ++i) {
      if (ended()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return fs::exists(file);
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

class DriveCli : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared = new SharedFolder("drive");
    shared->fill([] {
      const ProgramResult built =
          run_program("zoo build --quiet tiny_driving_vision tiny_driving_policy tiny_dmonitoring_model --out " +
                      in_quotes(models()));
      ASSERT_EQ(built.code, 0) << built.err;
      for (const int number : {0, 1}) make_segment(route(), kSegmentFrames, number);
    });
    for (const auto& entry : fs::directory_iterator(route())) names.insert(entry.path().filename().string());
    ASSERT_EQ(names.size(), 2U);
  }
  static void TearDownTestSuite() {
    delete shared;
    names.clear();
  }

  static fs::path models() { return shared->path() / "models"; }
  static fs::path route() { return shared->path() / "route"; }
  static std::string name(int segment) { return *std::next(names.begin(), segment); }
  fs::path out(const std::string& file = "out") const { return folder.path() / file; }

  static std::string words(const fs::path& from, const fs::path& to) {
    return "drive " + in_quotes(from) + " --quiet --models " + in_quotes(models()) + " --out " + in_quotes(to) + " ";
  }
  static ProgramResult drive(const fs::path& from, const fs::path& to, const std::string& more = "--no-overlay") {
    return run_program(words(from, to) + more);
  }
  // The messages written for a segment, without execution times.
  static std::vector<json> models_of(const fs::path& segment) {
    const ProgramResult dump = run_program("route dump modelV2 --quiet " + in_quotes(segment));
    EXPECT_EQ(dump.code, 0) << dump.err;
    std::vector<json> out;
    std::istringstream lines(dump.out);
    for (std::string line; std::getline(lines, line);) {
      out.push_back(json::parse(line));
      out.back()["modelV2"].erase("modelExecutionTime");
    }
    return out;
  }
  // A copy of the first segment that a test may damage.
  fs::path a_segment() const {
    const fs::path to = folder.path() / "damaged" / name(0);
    fs::create_directories(to.parent_path());
    fs::copy(route() / name(0), to);
    return to;
  }
  static json result_of(const fs::path& segment) { return json::parse(read_text((segment / "segment.json").string())); }
  // One line on stderr that names `word`, nothing on stdout, exit code 2.
  static void expect_refused(const ProgramResult& result, const std::string& word) {
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err << " expected: " << word;
  }
  // Temporary files that no run may leave. The lock file of a killed run remains, which locks nobody out.
  static std::string left_over(const fs::path& where) {
    const std::set<std::string> known{"rlog.zst",     "overlay.mp4",      "segment.json", "summary.json",
                                      "summary.html", ".sparkpilot.lock", "compare.html", "compare.mp4"};
    for (const auto& entry : fs::recursive_directory_iterator(where)) {
      const std::string file = entry.path().filename().string();
      if (entry.is_regular_file() && !known.contains(file) && !file.starts_with("frame_")) return file;
    }
    return "";
  }

  inline static SharedFolder* shared = nullptr;
  inline static std::set<std::string> names;
  TempFolder folder;
};

}  // namespace sparkpilot
