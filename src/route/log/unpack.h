// Bytes of a log: from a file or from memory, decompressed from zstd or bz2 while reading. Streamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace sparkpilot::drive {

// One thread uses a source at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads bytes into `out` and returns their number: at least one, zero only at the end. Fails (user) naming the file
  // if the system cannot read it.
  virtual size_t read(std::span<std::byte> out) = 0;
  // The share that has been read, 0 to 1.
  virtual double done() const = 0;
  // Why the bytes ended before the file did ("the zstd stream is cut"); empty if they did not.
  virtual const std::string& damage() const;
};

// Fails (user) if the path is not a regular file that can be opened.
std::unique_ptr<ByteSource> file_source(const std::filesystem::path& path);
// For bytes that outlive it.
std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes);

// The contents of `packed`, decompressed if its first bytes are zstd's or bz2's: frames or streams one after the other.
// Never more than `limit` bytes: a few kilobytes can hold terabytes. Memory: the format's own window, at most 128 MiB.
std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> packed, int64_t limit);

}  // namespace sparkpilot::drive
