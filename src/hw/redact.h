// Takes out of a text what names a person or one single machine, so that it can be shown to others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

class Redactor {
 public:
  // `names`: of users and hosts, replaced where they stand as whole words. Names that are ordinary words here ("root",
  // "nvidia") are left alone.
  explicit Redactor(std::vector<std::string> names = {});

  // Replaces names, home folders, MAC and IP addresses, UUIDs, and values whose key speaks of a serial number.
  std::string operator()(std::string_view text) const;

  // A file that holds nothing else: its contents do not belong into a recording at all.
  static bool secret_path(std::string_view path);

 private:
  std::vector<std::string> names_;
};

}  // namespace sparkpilot
