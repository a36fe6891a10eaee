// Child processes: lines both ways, deadlines, ends of all kinds, and that nothing of them remains.
#include "base/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/scratch_folder.h"
#include "base/test_files.h"
#include "sparkpilot/error.h"

namespace sparkpilot {
namespace {

using Answer = ChildProcess::Answer;

ChildOptions shell(const std::string& script, const std::filesystem::path& folder = {}) {
  return {.command = {"sh", "-c", script}, .folder = folder};
}

// Not a process that has ended and waits for somebody to ask for its exit code.
bool alive(pid_t pid) {
  const std::string state = read_text("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = state.rfind(") ");
  return name_end != std::string::npos && state.substr(name_end + 2, 1) != "Z";
}

template <typename Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(ChildProcess, TalksByLines) {
  ChildProcess child(shell("while read -r line; do echo \"<$line>\"; done"));
  for (const std::string& text :
       {std::string("one"), std::string(), std::string("two words"), std::string(100'000, 'x')}) {
    ASSERT_EQ(child.write_line(text, 5), Answer::ok);
    std::string line;
    ASSERT_EQ(child.read_line(line, 5), Answer::ok);
    EXPECT_EQ(line, "<" + text + ">");
  }
}

TEST(ChildProcess, SaysHowItEnded) {
  std::string line;
  ChildProcess fails(shell("echo first >&2; printf '  last words \\n\\n' >&2; exit 3"));
  EXPECT_EQ(fails.read_line(line, 5), Answer::ended);
  EXPECT_EQ(fails.how_it_ended(), "exit code 3");
  EXPECT_EQ(fails.last_error(), "last words");
  ChildProcess dies(shell("kill -SEGV $$"));
  EXPECT_EQ(dies.read_line(line, 5), Answer::ended);
  EXPECT_EQ(dies.how_it_ended(), "signal 11 (Segmentation fault)");
  EXPECT_EQ(dies.last_error(), "");
  ChildProcess closes(shell("exec >&-; sleep 60"));
  EXPECT_EQ(closes.read_line(line, 5), Answer::ended);
  EXPECT_EQ(closes.how_it_ended(), "closed its output");
  ChildProcess deaf(shell("exec <&-; echo ready; sleep 60"));
  EXPECT_EQ(deaf.read_line(line, 5), Answer::ok);
  EXPECT_EQ(deaf.write_line("hello", 5), Answer::ended);
}

TEST(ChildProcess, WaitsNoLongerThanAsked) {
  std::string line;
  ChildProcess child(shell("printf 'no newline'; sleep 60"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(child.read_line(line, 0.2), Answer::late);
  EXPECT_EQ(child.write_line(std::string(8 << 20, 'x'), 0.2), Answer::late);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(ChildProcess, BoundsWhatItKeeps) {
  std::string line;
  ChildOptions endless = shell("yes '' | tr '\\n' x");
  endless.longest_line = 1000;
  ChildProcess child(endless);
  EXPECT_EQ(child.read_line(line, 10), Answer::too_long);
  // More on stderr than a pipe holds, while nobody asks.
  ChildProcess loud(shell("head -c 2000000 /dev/zero | tr '\\0' e >&2; echo >&2; echo end >&2; echo done"));
  ASSERT_EQ(loud.read_line(line, 20), Answer::ok);
  EXPECT_EQ(line, "done");
  EXPECT_EQ(loud.read_line(line, 5), Answer::ended);
  EXPECT_EQ(loud.last_error(), "end");
}

TEST(ChildProcess, ForgetsErrorsAndSharesAFile) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ChildOptions options = shell("echo old >&2; echo a; read line; echo given >&3; echo b");
  options.shared = ends[1];
  ChildProcess child(options);
  std::string line;
  ASSERT_EQ(child.read_line(line, 5), Answer::ok);
  child.forget_errors();
  EXPECT_EQ(child.last_error(), "");
  child.write_line("go", 5);
  ASSERT_EQ(child.read_line(line, 5), Answer::ok);
  char text[6];
  ASSERT_EQ(::read(ends[0], text, sizeof text), 6);
  EXPECT_EQ(std::string(text, 6), "given\n");
  for (const int end : ends) ::close(end);
}

TEST(ChildProcess, RefusesWhatCannotBeStarted) {
  const auto start = [](const ChildOptions& options) { ChildProcess child(options); };
  EXPECT_THROW(start({.command = {"/nonexistent/program"}}), Error);
  EXPECT_THROW(start(shell("true", "/nonexistent")), Error);
}

TEST(ChildProcess, SetsVariables) {
  setenv("SPARKPILOT_TEST_CHANGED", "a", 1);
  ChildOptions options = shell("echo \"$SPARKPILOT_TEST_CHANGED,$SPARKPILOT_TEST_NEW\"");
  options.set = {{"SPARKPILOT_TEST_CHANGED", "b c"}, {"SPARKPILOT_TEST_NEW", "d=e"}};
  ChildProcess child(options);
  std::string line;
  ASSERT_EQ(child.read_line(line, 10), Answer::ok);
  EXPECT_EQ(line, "b c,d=e");
  EXPECT_STREQ(getenv("SPARKPILOT_TEST_CHANGED"), "a");
}

TEST(ChildProcess, UnsetsVariables) {
  setenv("SPARKPILOT_TEST_KEPT", "a", 1);
  setenv("SPARKPILOT_TEST_UNSET", "b", 1);
  ChildOptions options = shell("echo \"$SPARKPILOT_TEST_KEPT,$SPARKPILOT_TEST_UNSET\"");
  options.unset = {"SPARKPILOT_TEST_UNSET"};
  ChildProcess child(options);
  std::string line;
  ASSERT_EQ(child.read_line(line, 5), Answer::ok);
  EXPECT_EQ(line, "a,");
}

// A child that itself has a child: the group ends with the object.
const char* const kFamily = "trap '' TERM INT HUP; sleep 1000 & echo $!; wait";

TEST(ChildProcess, EndsItsGroup) {
  pid_t first = -1, second = -1;
  {
    ChildProcess child(shell(kFamily));
    std::string line;
    ASSERT_EQ(child.read_line(line, 5), Answer::ok);
    first = child.pid();
    second = static_cast<pid_t>(std::stol(line));
    EXPECT_TRUE(alive(first) && alive(second));
  }
  EXPECT_FALSE(alive(first));
  EXPECT_TRUE(soon([&] { return !alive(second); }));
}

// The process that has a child is killed: the child's group ends, and its folder goes.
TEST(ChildProcess, DoesNotOutliveAKilledProcess) {
  const TempFolder notes;
  const pid_t process = ::fork();
  if (process == 0) {
    const ScratchFolder folder, other;
    write_text(folder.path() / "file", "x");
    write_text(other.path() / "file", "x");
    ChildOptions options = shell(kFamily, folder.path());
    options.remove_if_killed = {other.path()};
    ChildProcess child(options);
    std::string line;
    child.read_line(line, 5);
    write_text(notes / "text", std::to_string(child.pid()) + " " + line + " " + folder.path().string() + " " +
                                   other.path().string() + "\n");
    ::raise(SIGKILL);
  }
  ASSERT_GT(process, 0);
  ::waitpid(process, nullptr, 0);
  std::istringstream text(read_text(notes / "text"));
  pid_t first = -1, second = -1;
  std::string folder, other;
  text >> first >> second >> folder >> other;
  ASSERT_FALSE(other.empty());
  EXPECT_TRUE(soon([&] { return !alive(first) || ::waitpid(first, nullptr, WNOHANG) != 0; }));
  EXPECT_TRUE(soon([&] { return !alive(second); }));
  EXPECT_TRUE(soon([&] { return !std::filesystem::exists(folder) && !std::filesystem::exists(other); }));
}

TEST(ScratchFolder, IsPrivateAndGoes) {
  std::filesystem::path path;
  {
    const ScratchFolder folder;
    path = folder.path();
    write_text(path / "inner" / "file", "x");
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::all,
              std::filesystem::perms::owner_all);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace sparkpilot
