// gpu_check.json: what was found on a GPU, part by part, and its tables.
#pragma once

#include "part.h"

namespace sparkpilot::gpu_check {

class Results {
 public:
  // Goes on with the file in `folder` if there is one. Fails (user) if that is not such a file, or is of another GPU,
  // program or commit.
  Results(const std::filesystem::path& folder, int ordinal, const std::string& commit);

  // What is known of a part; null if nothing.
  const Json& part(std::string_view name) const;
  // Writes the file aside and renames it.
  void set(std::string_view name, Json part);
  bool all_passed() const;

 private:
  std::filesystem::path file_;
  Json document_;
};

// A file's parts as Markdown: what passed, what failed, and tables of times. Fails (user) if it is no such file.
std::string as_markdown(const std::filesystem::path& file);

}  // namespace sparkpilot::gpu_check
