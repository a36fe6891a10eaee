#include "stack/source.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot::stack {

std::string Source::text(uint64_t offset, size_t longest) const {
  if (offset >= size()) return {};
  std::string bytes(static_cast<size_t>(std::min<uint64_t>(longest, size() - offset)), '\0');
  read(offset, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  bytes.resize(std::min(bytes.find('\0'), bytes.size()));
  return bytes;
}

void FileSource::read(uint64_t offset, std::span<std::byte> out) const {
  if (!holds(offset, out.size())) {
    fail("{}: {} bytes wanted at offset {}, the file has {}", file_.path().string(), out.size(), offset, size());
  }
  file_.read_at(static_cast<int64_t>(offset), out);
}

void MemorySource::read(uint64_t offset, std::span<std::byte> out) const {
  if (!holds(offset, out.size())) {
    fail("{} bytes wanted at offset {}, there are {}", out.size(), offset, size());
  }
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
}

}  // namespace sparkpilot::stack
