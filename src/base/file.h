// Files: whole reads, checked positioned reads, and writes that never leave an incomplete file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace sparkpilot {

// A regular file opened for reading. Errors name the path. read_at may be called from several threads.
class InputFile {
 public:
  // Fails (user) if the path does not exist, is a folder, or is not a regular file.
  explicit InputFile(std::filesystem::path path);
  // Opens `relative` only inside `folder`: no "..", no absolute path, no symbolic link in the path, a regular file with
  // a single hard link. External data of models is opened this way (CVE-2024-27318 and similar ones).
  static InputFile open_beneath(const std::filesystem::path& folder, const std::string& relative);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  int fd() const { return fd_; }
  int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  // Reads exactly `out.size()` bytes at `offset`; fails (user) if the file ends earlier.
  void read_at(int64_t offset, std::span<std::byte> out) const;

 private:
  InputFile(int fd, std::filesystem::path path);
  void check();
  int fd_ = -1;
  int64_t size_ = 0;
  std::filesystem::path path_;
};

// The whole file as bytes; fails (user) above `limit` bytes.
std::string read_file(const std::filesystem::path& path, int64_t limit = int64_t{1} << 31);

// Fails (user) if writing `out` would replace `input`: both are the same regular file, under any name (links of both
// kinds, another spelling of the path). Call it before `out` is written.
void refuse_to_replace(const std::filesystem::path& out, const std::filesystem::path& input);

// Makes a folder and its parents if missing; fails (user) with the path and the system's reason.
void make_folders(const std::filesystem::path& path);

// Waits until what was written to a folder's files, and the folder's own entries, are on the disk and outlive a loss of
// power. Not for folders in it. Fails (user) with the path and the system's reason.
void sync_folder(const std::filesystem::path& folder);

// A file that is written under a temporary name and renamed by commit(); without commit() nothing remains. If the file
// system supports it (most local ones do), the temporary file has no name, so that even a killed process leaves
// nothing. One thread uses an object at a time.
//
// An existing path that is not a regular file is kept: a symbolic link's target is written, a device or a pipe gets the
// bytes directly (opening a pipe waits for its reader), and anything else (a folder, a socket) is refused.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  int fd() const { return fd_; }
  // Renames onto the path; fails (user) with the system's reason. What a loss of power leaves is sync_folder()'s
  // matter. For a device or a pipe there is nothing to rename.
  void commit();

  // For a process that is about to be ended by a signal: removes all temporary files; later attempts to begin or commit
  // a file block forever.
  static void abandon_all();

 private:
  // Opens a device or pipe; false if a temporary file is to be written instead.
  bool open_stream();
  bool open_unnamed();
  void give_name();

  std::filesystem::path path_, target_, aside_;  // as given; after following links; temporary, empty if unnamed
  int fd_ = -1;
  bool unnamed_ = false;
};

}  // namespace sparkpilot
