// Removes from a text what identifies a person or a single machine, so that it can be shown to others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

class Redactor {
 public:
  // `names`: of users and hosts, replaced if they are whole words. Names that are ordinary words here ("root",
  // "nvidia") are kept.
  explicit Redactor(std::vector<std::string> names = {});

  // Replaces names, home folders, MAC and IP addresses, UUIDs, and values whose key mentions a serial number.
  std::string operator()(std::string_view text) const;

  // Whether a file holds nothing else, so that its contents do not belong in a recording.
  static bool secret_path(std::string_view path);

 private:
  std::vector<std::string> names_;
};

}  // namespace sparkpilot
