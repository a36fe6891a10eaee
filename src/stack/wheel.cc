#include "stack/wheel.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace sparkpilot::stack {
namespace fs = std::filesystem;
namespace {

fs::path temporary_folder() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (!error) return folder;
  const char* named = std::getenv("TMPDIR");
  fail("{}: no folder for temporary files (TMPDIR): {}", named ? named : "/tmp", error.message());
}

// A temporary file without a name: it disappears when it is closed, however the program ends.
class UnnamedFile : public Source {
 public:
  UnnamedFile() {
    std::string name = (temporary_folder() / "sparkpilot-XXXXXX").string();
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) fail("{}: cannot write: {}", name, std::strerror(errno));
    ::unlink(name.c_str());
  }
  ~UnnamedFile() override { ::close(fd_); }
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  void append(const char* data, size_t bytes) {
    while (bytes > 0) {
      const ssize_t put = ::write(fd_, data, bytes);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail("a temporary file of a wheel: cannot write: {}", std::strerror(errno));
      data += put;
      bytes -= static_cast<size_t>(put);
      size_ += static_cast<uint64_t>(put);
    }
  }
  uint64_t size() const override { return size_; }
  void read(uint64_t offset, std::span<std::byte> out) const override {
    if (!holds(offset, out.size())) fail("{} bytes wanted at offset {}, there are {}", out.size(), offset, size_);
    for (size_t done = 0; done < out.size();) {
      const ssize_t got = ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("a temporary file of a wheel: cannot read: {}", std::strerror(errno));
      done += static_cast<size_t>(got);
    }
  }

 private:
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace

struct Wheel::Archive {
  explicit Archive(zip_t* opened) : zip(opened) {}
  ~Archive() { zip_discard(zip); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  zip_t* zip;
};

Wheel::Wheel(const InputFile& file) : name_(file.path().string()) {
  const int fd = ::dup(file.fd());
  if (fd < 0) fail("{}: {}", name_, std::strerror(errno));
  int code = 0;
  zip_t* zip = zip_fdopen(fd, ZIP_RDONLY, &code);
  if (!zip) {
    ::close(fd);
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail("{}: no zip archive: {}", name_, reason);
  }
  archive_ = std::make_unique<Archive>(zip);
  const zip_int64_t count = zip_get_num_entries(zip, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    if (zip_stat_index(zip, static_cast<zip_uint64_t>(i), 0, &info) != 0) continue;
    if ((info.valid & ZIP_STAT_NAME) && (info.valid & ZIP_STAT_SIZE)) {
      members_.push_back({info.name, static_cast<uint64_t>(i), info.size});
    }
  }
}

Wheel::~Wheel() = default;

template <typename Take>
void Wheel::read(const Member& member, Take take) const {
  zip_file_t* opened = zip_fopen_index(archive_->zip, member.index, 0);
  if (!opened) fail("{}!{}: {}", name_, member.name, zip_strerror(archive_->zip));
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> closing(opened, zip_fclose);
  std::array<char, 1 << 16> piece;
  uint64_t left = member.bytes;
  while (true) {
    const zip_int64_t got = zip_fread(opened, piece.data(), piece.size());
    if (got < 0) fail("{}!{}: {}", name_, member.name, zip_error_strerror(zip_file_get_error(opened)));
    if (got == 0) break;
    if (static_cast<uint64_t>(got) > left)
      fail("{}!{}: unpacks to more than the {} bytes it says", name_, member.name, member.bytes);
    left -= static_cast<uint64_t>(got);
    take(piece.data(), static_cast<size_t>(got));
  }
}

std::unique_ptr<Source> Wheel::unpack(const Member& member) const {
  // An archive of a few megabytes may claim to unpack to terabytes.
  std::error_code error;
  const fs::path folder = temporary_folder();
  const fs::space_info room = fs::space(folder, error);
  if (error || member.bytes > room.available / 2) {
    fail("{}!{}: {} bytes, more than half of what is free in {}", name_, member.name, member.bytes, folder.string());
  }
  auto file = std::make_unique<UnnamedFile>();
  read(member, [&](const char* data, size_t bytes) { file->append(data, bytes); });
  return file;
}

std::string Wheel::text(const Member& member, uint64_t limit) const {
  if (member.bytes > limit) fail("{}!{}: {} bytes, more than the {} allowed", name_, member.name, member.bytes, limit);
  std::string text;
  read(member, [&](const char* data, size_t bytes) { text.append(data, bytes); });
  return text;
}

}  // namespace sparkpilot::stack
