// Tests of the program from outside: running it, reading what it says and writes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace sparkpilot {

struct ProgramResult {
  int code = -1;  // exit code; 128 + the signal where one ended it
  std::string out, err;
};

// A folder of its own that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sparkpilot_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write_text(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// Runs the program with `arguments` as a shell reads them; `before` goes in front (ulimit, environment).
inline ProgramResult run_program(const std::string& arguments, const std::string& before = {}) {
  const TempFolder folder;
  const std::string command = before + " '" SPARKPILOT_PROGRAM "' " + arguments + " >'" + (folder / "out") + "' 2>'" +
                              (folder / "err") + "' </dev/null";
  const int status = std::system(command.c_str());
  ProgramResult result;
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  result.out = read_text(folder / "out");
  result.err = read_text(folder / "err");
  return result;
}

}  // namespace sparkpilot
