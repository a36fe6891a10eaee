// gpu_check.json: what was found on a GPU, part by part, and its tables.
#pragma once

#include <mutex>
#include <optional>

#include "part.h"

namespace sparkpilot::gpu_check {

// Any thread may use it.
class Results {
 public:
  // Goes on with the file in `folder` if there is one. A damaged one is renamed, which `say` is told, and a new one is
  // begun. Fails (user) if it is another program's, or is of another GPU, program or commit.
  Results(const std::filesystem::path& folder, int ordinal, const std::string& commit,
          const std::function<void(const std::string& line)>& say);

  const std::filesystem::path& file() const { return file_; }
  // What is known of a part; null if nothing.
  Json part(std::string_view name) const;
  // Writes the file aside and renames it. `part`: as it is to be found if this process ends in whatever way; null: not
  // at all. `if_stopped`: the same if stop() is called before the next set().
  void set(std::string_view name, Json part, std::optional<Json> if_stopped = {});
  // Writes what the last set() gave for it. Later calls of set() never return: for a process that is about to end.
  void stop();

 private:
  void put(std::string_view name, Json part);
  void write() const;

  std::filesystem::path file_;
  mutable std::mutex mutex_;
  Json document_;
  std::string stopped_part_;
  std::optional<Json> if_stopped_;
};

// A results file that is whole. Fails (user) with its name and the first field that is wrong.
Json read_results(const std::filesystem::path& file);

// A file's parts as Markdown: what passed, what failed, and tables of times. Fails (user) as read_results().
std::string as_markdown(const std::filesystem::path& file);

}  // namespace sparkpilot::gpu_check
