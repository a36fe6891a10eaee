// The bytes of a model, from a file or from memory, read at positions.
//
// Private to the room. A source is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"

namespace sparkpilot {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t size() const = 0;
  // The bytes from `offset` on, at least one and at most `most`; offset + most must lie within size(). Valid until
  // the next call of peek() or read().
  virtual std::span<const std::byte> peek(int64_t offset, int64_t most) = 0;
  // Fills `out` from `offset`; fails (user) if the source ends earlier.
  virtual void read(int64_t offset, std::span<std::byte> out) = 0;
};

class ArraySource final : public ByteSource {
 public:
  explicit ArraySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  std::span<const std::byte> peek(int64_t offset, int64_t most) override;
  void read(int64_t offset, std::span<std::byte> out) override;

 private:
  std::span<const std::byte> bytes_;
};

// Reads large pieces straight from the file into their destination, small ones through a buffer.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path) : file_(path), buffer_(kBufferBytes) {}
  int64_t size() const override { return file_.size(); }
  std::span<const std::byte> peek(int64_t offset, int64_t most) override;
  void read(int64_t offset, std::span<std::byte> out) override;

 private:
  static constexpr int64_t kBufferBytes = 1 << 16;
  InputFile file_;
  std::vector<std::byte> buffer_;
  int64_t buffer_at_ = 0, buffered_ = 0;
};

}  // namespace sparkpilot
