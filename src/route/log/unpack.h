// Bytes of a log: from a file or from memory, and unpacked from zstd or bz2 on the way. Streamed.
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
  // Puts bytes into `out` and returns how many: at least one, zero at the end only. Fails (user) naming the file where
  // the system cannot read it.
  virtual size_t read(std::span<std::byte> out) = 0;
  // The part that has been read, 0 to 1.
  virtual double done() const = 0;
  // Why the bytes ended before the file did ("the zstd stream is cut"); empty where they did not.
  virtual const std::string& damage() const;
};

// Fails (user) where the path is no regular file that can be opened.
std::unique_ptr<ByteSource> file_source(const std::filesystem::path& path);
// Over bytes that outlive it.
std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes);

// What `packed` holds, unpacked where its first bytes are zstd's or bz2's: frames or streams one after the other. Never
// more than `limit` bytes: a few kilobytes can hold terabytes. Memory: the format's own window, at most 128 MiB.
std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> packed, int64_t limit);

}  // namespace sparkpilot::drive
