#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/test_files.h"
#include "base/text.h"

namespace sparkpilot {
namespace {
namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  TempFolder folder;
  const fs::path dir = folder.path();
};

TEST_F(Folder, AtomicFileAppearsOnlyAfterCommit) {
  const fs::path path = dir / "a.bin";
  {
    AtomicFile file(path);
    file.write("half");
  }
  EXPECT_TRUE(fs::is_empty(dir));
  AtomicFile file(path);
  file.write("whole");
  file.commit();
  EXPECT_EQ(read_file(path), "whole");
  AtomicFile again(path);
  again.write("anew");
  again.commit();
  EXPECT_EQ(read_file(path), "anew");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 1) << "under its name alone";
}

TEST_F(Folder, AtomicFileWritesBehindLinks) {
  fs::create_directory(dir / "real");
  put(dir / "real/old", "old");
  fs::create_symlink("real/old", dir / "near");
  fs::create_symlink(dir / "near", dir / "far");
  fs::create_symlink("real/new", dir / "dangling");
  for (const char* link : {"near", "far", "dangling"}) {
    AtomicFile file(dir / link);
    file.write(std::string_view(link));
    file.commit();
    EXPECT_TRUE(fs::is_symlink(dir / link)) << link;
    EXPECT_EQ(read_file(dir / link), link);
  }
  EXPECT_EQ(read_file(dir / "real/old"), "far");
  EXPECT_EQ(read_file(dir / "real/new"), "dangling");
  fs::create_symlink("round", dir / "round");
  EXPECT_THROW(AtomicFile(dir / "round"), Error);
}

TEST_F(Folder, AtomicFileReplacesNothingButFiles) {
  fs::create_directory(dir / "folder");
  EXPECT_THROW(AtomicFile(dir / "folder"), Error);
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  const int reader = open((dir / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  {
    AtomicFile file(dir / "pipe");
    file.write("through");
    file.commit();
  }
  char got[16] = {};
  EXPECT_EQ(read(reader, got, sizeof got), 7);
  close(reader);
  EXPECT_STREQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(dir / "pipe"));
  // A device node in the test's own folder: a fault here must not destroy the machine's /dev/null.
  if (mknod((dir / "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 || !std::ofstream(dir / "null")) {
    GTEST_SKIP() << "may not make devices here";
  }
  AtomicFile file(dir / "null");
  file.write("gone");
  file.commit();
  EXPECT_TRUE(fs::is_character_file(dir / "null"));
}

TEST_F(Folder, FoldersThatCannotBeMadeAreNamed) {
  put(dir / "file", "");
  make_folders(dir / "a/b");
  make_folders(dir / "a/b");
  for (const char* bad : {"file", "file/inner"}) {
    try {
      make_folders(dir / bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      EXPECT_NE(std::string(error.what()).find((dir / bad).string()), std::string::npos) << error.what();
    }
  }
}

TEST_F(Folder, WhatIsReadIsKnownByAnyName) {
  fs::create_directory(dir / "sub");
  put(dir / "file", "text");
  put(dir / "copy", "text");
  fs::create_symlink("file", dir / "soft");
  fs::create_symlink("soft", dir / "far");
  fs::create_hard_link(dir / "file", dir / "hard");
  fs::create_directory_symlink(dir, dir / "sub/up");
  for (const char* name : {"file", "./file", "sub/../file", "soft", "far", "hard", "sub/up/file"}) {
    EXPECT_THROW(refuse_to_replace(dir / name, dir / "file"), Error) << name;
    EXPECT_THROW(refuse_to_replace(dir / "file", dir / name), Error) << name;
  }
  for (const char* name : {"copy", "new", "sub", "sub/file", ""}) refuse_to_replace(dir / name, dir / "file");
  refuse_to_replace(dir / "new", dir / "new");  // does not exist: nothing can be lost
  refuse_to_replace("/dev/null", "/dev/null");  // keeps nothing
}

// For the rest of this process, makes opening unnamed files fail, as on a file system without them. False if that is
// not possible.
bool forbid_unnamed_files() {
  constexpr uint32_t kUnnamed = O_TMPFILE & ~O_DIRECTORY;
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 3),
                         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                         BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kUnnamed, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{std::size(steps), steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(Folder, AbandonedFilesAreGone) {
  const pid_t child = fork();
  if (child == 0) {  // as when a signal ends the process: no destructor runs
    if (!forbid_unnamed_files()) _exit(77);
    AtomicFile first(dir / "a.bin"), second(dir / "b.bin"), third(dir / "c.bin");
    first.write("half");
    third.write("whole");
    if (std::distance(fs::directory_iterator(dir), {}) != 3) _exit(1);
    third.commit();
    AtomicFile::abandon_all();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "system calls cannot be forbidden here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(dir / "c.bin"), "whole");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 1) << "beside the whole one";
}

TEST_F(Folder, AKilledProcessLeavesNothing) {
  const int unnamed = open(dir.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (unnamed < 0) GTEST_SKIP() << "this file system has no files without a name";
  close(unnamed);
  put(dir / "old", "old");
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile fresh(dir / "new"), again(dir / "old");
    fresh.write("half");
    again.write("half");
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(fs::exists(dir / "new"));
  EXPECT_EQ(read_file(dir / "old"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 1) << "beside the old one";
}

TEST_F(Folder, OpenBeneathRefusesEscapes) {
  const fs::path model = dir / "model";
  fs::create_directories(model / "sub");
  put(dir / "secret", "s");
  put(model / "data", "d");
  put(model / "sub" / "data", "e");
  fs::create_symlink(dir / "secret", model / "link");
  fs::create_directory_symlink(dir, model / "up");
  fs::create_hard_link(dir / "secret", model / "hard");
  EXPECT_EQ(InputFile::open_beneath(model, "data").size(), 1);
  EXPECT_EQ(InputFile::open_beneath(model, "./sub/data").size(), 1);
  for (const char* bad : {"../secret", "sub/../../secret", "link", "up/secret", "hard", "sub", "", "gone"}) {
    EXPECT_THROW(InputFile::open_beneath(model, bad), Error) << bad;
  }
  EXPECT_THROW(InputFile::open_beneath(model, (model / "data").string()), Error);
}

TEST_F(Folder, ReadPastTheEndIsAnError) {
  put(dir / "x", "1234");
  const InputFile file(dir / "x");
  std::array<std::byte, 4> out{};
  file.read_at(0, out);
  EXPECT_THROW(file.read_at(1, out), Error);
  EXPECT_THROW(file.read_at(-1, out), Error);
  EXPECT_THROW(file.read_at(INT64_MAX, out), Error);
}

TEST(Parallel, CoversEveryItemOnceAndRethrows) {
  ThreadScope scope(3);
  for (int64_t count : {0, 1, 7, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
    parallel_for(count, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
    });
    for (auto& n : seen) EXPECT_EQ(n, 1);
  }
  EXPECT_THROW(parallel_for(100, 1, [](int64_t, int64_t) { fail("no"); }), Error);
}

// Ending a thread and starting it again costs more than most pieces of work.
TEST(Parallel, LittleWorkKeepsTheThreads) {
  ThreadScope scope(4);
  const auto threads_of = [](int64_t count) {
    std::mutex mutex;
    std::set<pid_t> seen;
    parallel_for(count, 1, [&](int64_t, int64_t) {
      const std::lock_guard<std::mutex> lock(mutex);
      seen.insert(gettid());
    });
    return seen;
  };
  const std::set<pid_t> all = threads_of(4);
  EXPECT_EQ(threads_of(2).size(), std::min<size_t>(2, all.size()));
  EXPECT_EQ(threads_of(4), all);
}

// A held team does the same work as one that is not held, one call after the other.
TEST(Parallel, AHeldTeamCoversEveryItemOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadScope scope(threads);
    const int all = thread_count();
    with_team([&] {
      EXPECT_EQ(thread_count(), all);
      for (int64_t count = 0; count < 300; ++count) {
        std::vector<int> seen(static_cast<size_t>(count)), inside(static_cast<size_t>(count));
        parallel_for(count, 1 + count % 5, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
          parallel_for(end - begin, 1, [&](int64_t first, int64_t last) {  // nested: runs in this thread
            for (int64_t i = first; i < last; ++i) ++inside[static_cast<size_t>(begin + i)];
          });
        });
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count);
        EXPECT_EQ(std::count(inside.begin(), inside.end(), 1), count);
      }
    });
  }
}

TEST(Parallel, AHeldTeamGoesOnBehindErrors) {
  ThreadScope scope(3);
  int64_t done = 0;
  const auto run = [&] {
    for (int64_t bad = 0; bad < 3; ++bad) {
      const auto fail_at = [&](int64_t begin, int64_t) {
        if (begin == bad) fail("no {}", begin);
      };
      EXPECT_THROW(parallel_for(3, 1, fail_at), Error);
      EXPECT_THROW(parallel_for(3, 1, [](int64_t begin, int64_t) { fail("no {}", begin); }), Error);
      std::atomic<int64_t> sum = 0;
      parallel_for(100, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) sum += i;
      });
      EXPECT_EQ(sum, 4950);
      ++done;
    }
    fail("in the end");
  };
  EXPECT_THROW(with_team(run), Error);
  EXPECT_EQ(done, 3);
  EXPECT_THROW(with_team(run), Error);  // with the same threads again
  EXPECT_EQ(done, 6);
}

// Idle threads go to sleep and wake up again; the others wait for the slow one.
TEST(Parallel, AHeldTeamSleepsAndWakes) {
  ThreadScope scope(2);
  const int all = thread_count();
  std::atomic<int> pieces = 0;
  with_team([&] {
    with_team([&] {  // nothing more
      for (const int slow : {0, 1, 2, 3}) {
        std::this_thread::sleep_for(std::chrono::milliseconds(slow));
        parallel_for(2, 1, [&](int64_t begin, int64_t end) {
          if (begin == slow % 2) std::this_thread::sleep_for(std::chrono::milliseconds(slow));
          pieces += static_cast<int>(end - begin);
        });
        EXPECT_EQ(pieces, 2 * slow + 2);
      }
    });
    EXPECT_EQ(thread_count(), all);
  });
  parallel_for(2, 1, [&](int64_t, int64_t) { with_team([&] { EXPECT_EQ(thread_count(), 1); }); });
}

// Each of a caller's own threads has its own team.
TEST(Parallel, TeamsDoNotDisturbEachOther) {
  std::array<int64_t, 3> sums{};
  std::vector<std::thread> callers;
  for (int64_t& sum : sums) {
    callers.emplace_back([&sum] {
      ThreadScope scope(2);
      with_team([&] {
        for (int round = 0; round < 200; ++round) {
          std::array<int64_t, 2> parts{};
          parallel_for(2, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) parts[static_cast<size_t>(i)] = i + round;
          });
          sum += parts[0] + parts[1];
        }
      });
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, 200 + 200 * 199);
}

TEST(Random, PhiloxMatchesThePublishedVector) {
  // Random123's known answer test: philox4x32-10, counter and key zero.
  const auto words = philox4x32(0, 0);
  EXPECT_EQ(words[0], 0x6627e8d5u);
  EXPECT_EQ(words[1], 0xe169c58du);
  EXPECT_EQ(words[2], 0xbc57ac4cu);
  EXPECT_EQ(words[3], 0x9b00dbd8u);
}

TEST(Text, AShellReadsAWordAsItWas) {
  EXPECT_EQ(shell_word("runs/new_2.json"), "runs/new_2.json");
  for (const std::string word : {"", "a b", "it's", "$HOME", "a\\b", "*", "'", "-x;ls", "gr\xc3\xbc\xc3\x9f"}) {
    FILE* shell = popen(("printf %s " + shell_word(word)).c_str(), "r");
    ASSERT_NE(shell, nullptr);
    char text[64] = {};
    const size_t size = fread(text, 1, sizeof text, shell);
    EXPECT_EQ(pclose(shell), 0);
    EXPECT_EQ(std::string(text, size), word);
  }
}

TEST(Error, IsOnePrintableLine) {
  EXPECT_EQ(one_line("conv: input has 12 channels"), "conv: input has 12 channels");
  EXPECT_EQ(one_line("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(one_line("gr\u00fc\u00df \u4e16 \U0001f600"), "gr\u00fc\u00df \u4e16 \U0001f600");
  EXPECT_EQ(one_line("\xff\xc3"), "\\xff\\xc3");           // not UTF-8, truncated
  EXPECT_EQ(one_line("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(one_line("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
  const std::string shown = one_line(std::string(1'000'000, 'x') + "end");
  EXPECT_LT(shown.size(), 3000U);
  EXPECT_TRUE(shown.ends_with("xend"));
  const Error error(ErrorKind::user, "two\nlines");
  EXPECT_STREQ(error.what(), "two\\x0alines");
}

}  // namespace
}  // namespace sparkpilot
