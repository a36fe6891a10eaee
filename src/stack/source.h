// Bytes that are read in pieces: a file, or memory. Files are not mapped, as truncating a mapped file would end the
// process; a failed read is an error that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>

#include "base/file.h"

namespace sparkpilot::stack {

class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  // Fails (user) if not all the bytes exist.
  virtual void read(uint64_t offset, std::span<std::byte> out) const = 0;

  bool holds(uint64_t offset, uint64_t bytes) const { return offset <= size() && bytes <= size() - offset; }
  // A little-endian structure; fails (user) if the source ends earlier.
  template <typename T>
  T load(uint64_t offset) const {
    T value;
    read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  // The text that begins at `offset` and ends at a zero byte, after `longest` bytes, or at the source's end.
  std::string text(uint64_t offset, size_t longest) const;
};

class FileSource : public Source {
 public:
  explicit FileSource(InputFile file) : file_(std::move(file)) {}
  uint64_t size() const override { return static_cast<uint64_t>(file_.size()); }
  void read(uint64_t offset, std::span<std::byte> out) const override;

 private:
  InputFile file_;
};

class MemorySource : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  explicit MemorySource(const std::string& bytes) : bytes_(std::as_bytes(std::span(bytes))) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace sparkpilot::stack
