// A file of lines that grows while others read it.
#pragma once

#include <string>
#include <string_view>

namespace sparkpilot::cli {

// Every line is in the file when append() returns. Errors name the path.
class AppendFile {
 public:
  // Begins a new or empty file with the line `heading`. A file that begins with this line is continued; fails (user) if
  // it begins with another.
  AppendFile(std::string path, std::string_view heading);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view line);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace sparkpilot::cli
