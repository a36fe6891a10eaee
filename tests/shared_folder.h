// Files that the tests of a suite read and do not change.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/test_files.h"

namespace sparkpilot {

// ctest starts a process for each test. Those of one run of scripts/test.sh, which names a folder in
// SPARKPILOT_TEST_FOLDER, share what the first of them makes under `name`. Without it each process makes its own and
// removes it. One thread at a time.
class SharedFolder {
 public:
  explicit SharedFolder(const std::string& name) {
    const char* where = std::getenv("SPARKPILOT_TEST_FOLDER");
    shared_ = where != nullptr && *where != '\0';
    path_ = shared_ ? std::filesystem::path(where) / name : own_.emplace().path();
  }

  // `make()` fills the folder, which is empty then. Called once, as long as it does not fail; the processes wait for
  // each other meanwhile.
  template <class Make>
  void fill(Make make) const {
    if (!shared_) {
      make();
      return;
    }
    std::filesystem::create_directories(path_.parent_path());
    const int lock = ::open((path_.string() + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    ASSERT_TRUE(lock >= 0 && ::flock(lock, LOCK_EX) == 0) << "cannot lock " << path_;
    const std::filesystem::path made = path_.string() + ".made";
    if (!std::filesystem::exists(made)) {
      std::filesystem::remove_all(path_);
      std::filesystem::create_directories(path_);
      make();
      if (!::testing::Test::HasFailure()) write_text(made, "");
    }
    ::close(lock);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  bool shared_ = false;
  std::optional<TempFolder> own_;
  std::filesystem::path path_;
};

}  // namespace sparkpilot
