#include "base/folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_files.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;

const fs::path kFile = ".sparkpilot.lock";

// A child process that reports when it has done `first`, then waits to be killed.
class Child {
 public:
  explicit Child(const std::function<void()>& first) {
    int told[2];
    if (pipe(told) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      first();
      if (write(told[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    }
    char byte = 0;
    close(told[1]);
    ready_ = read(told[0], &byte, 1) == 1;
    close(told[0]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }
  bool ready() const { return ready_; }

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
};

std::string refusal(const fs::path& folder) {
  try {
    const FolderLock lock(folder);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "";
}

TEST(FolderLock, TheHolderIsNamedAndAKilledOneHoldsNothing) {
  const TempFolder folder;
  const fs::path out = folder / "a/b";
  Child holder([&] { new FolderLock(out); });  // never destroyed: the process is killed
  ASSERT_TRUE(holder.ready());
  EXPECT_EQ(refusal(out), out.string() + ": process " + std::to_string(holder.pid()) +
                              " is writing into this folder: wait until it ends, or choose another folder");
  fs::create_directory_symlink(out, folder / "link");
  EXPECT_NE(refusal(folder / "link"), "") << "the same folder";
  EXPECT_EQ(refusal(folder / "a"), "") << "another folder";
  EXPECT_TRUE(fs::exists(out / kFile)) << "whoever is refused leaves the file to its holder";
  holder.kill();
  EXPECT_TRUE(fs::exists(out / kFile));
  {
    const FolderLock lock(out);
    EXPECT_TRUE(lock.held());
  }
  EXPECT_FALSE(fs::exists(out / kFile));
}

TEST(FolderLock, LeavesTheFoldersThatAreUsed) {
  const TempFolder folder;
  {
    const FolderLock lock(folder / "new/inner");
    EXPECT_TRUE(fs::exists(folder / "new/inner" / kFile));
  }
  EXPECT_FALSE(fs::exists(folder / "new"));
  {
    const FolderLock lock(folder / "new/inner/");
    write_text(folder / "new/result", "kept");
  }
  EXPECT_FALSE(fs::exists(folder / "new/inner"));
  EXPECT_TRUE(fs::exists(folder / "new/result"));
  fs::create_directory(folder / "empty");
  { const FolderLock lock(folder / "empty"); }
  EXPECT_TRUE(fs::exists(folder / "empty")) << "it was there before";
}

TEST(FolderLock, WhatCannotBeLockedIsNamed) {
  const TempFolder folder;
  write_text(folder / "file", "");
  EXPECT_NE(refusal(folder / "file").find(folder.file("file")), std::string::npos);
  // A link in the lock file's place must not make a file elsewhere.
  fs::create_symlink(folder / "elsewhere", folder / kFile);
  EXPECT_NE(refusal(folder.path()).find(folder.file(kFile.string())), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
}

// While the file is removed and created again by others, only one process at a time holds the lock.
TEST(FolderLock, OneAtATimeWhileTheFileComesAndGoes) {
  const TempFolder folder;
  const fs::path out = folder / "out";
  fs::create_directory(out);
  constexpr int kProcesses = 4, kTurns = 200;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int turns = 0; turns < kTurns;) {
      try {
        const FolderLock lock(out);
        const int mine = open(folder.file("inside").c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (mine < 0) _exit(1);
        close(mine);
        unlink(folder.file("inside").c_str());
        ++turns;
      } catch (const Error& error) {
        if (std::string(error.what()).find("is writing into this folder") == std::string::npos) _exit(2);
      }
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(fs::is_empty(out));
}

}  // namespace
}  // namespace sparkpilot
