// Files: whole reads, checked positioned reads, and writes that never leave half a file behind.
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
  // Fails (user) when the path does not exist, is a folder, or is no regular file.
  explicit InputFile(std::filesystem::path path);
  // Opens `relative` strictly beneath `folder`: no "..", no absolute path, no symbolic link on the way, a regular
  // file with a single hard link. This is how external data of a model is opened (CVE-2024-27318 and its kin).
  static InputFile open_beneath(const std::filesystem::path& folder, const std::string& relative);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  int fd() const { return fd_; }
  int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  // Reads exactly `out.size()` bytes at `offset`; fails (user) when the file ends before.
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

// Fails (user) where a file written at `out` would replace `input`: both are one regular file, whatever it is called
// (links of both kinds, another way to write the path). To be called before `out` is written.
void refuse_to_replace(const std::filesystem::path& out, const std::filesystem::path& input);

// Makes a folder and those above it where they are missing; fails (user) with the path and the system's reason.
void make_folders(const std::filesystem::path& path);

// A file written aside and renamed into place by commit(); without commit() nothing is left behind. Where the file
// system can (most local ones), what is being written has no name, so that not even a process that is killed leaves any
// of it. One thread uses an object at a time.
//
// What is there and no regular file stays: a symbolic link's target is written, a device or a pipe takes the bytes as
// they come (opening a pipe waits for its reader), and anything else (a folder, a socket) is refused.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  int fd() const { return fd_; }
  // Flushes, renames onto the path; fails (user) with the system's reason. Nothing to rename where bytes went straight
  // to a device or a pipe.
  void commit();

  // For a process that is about to be ended by a signal: removes what is being written aside and lets no file begin or
  // be committed any more (such calls wait for ever).
  static void abandon_all();

 private:
  // Opens what takes bytes as they come; false where a file is to be written aside.
  bool open_stream();
  bool open_unnamed();
  void give_name();

  std::filesystem::path path_, target_, aside_;  // as given; behind links; beside it, empty without a name
  int fd_ = -1;
  bool unnamed_ = false;
};

}  // namespace sparkpilot
