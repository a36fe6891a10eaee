#include "onnx/source.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace sparkpilot {

std::span<const std::byte> ArraySource::peek(int64_t offset, int64_t most) {
  return bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(most));
}

void ArraySource::read(int64_t offset, std::span<std::byte> out) {
  if (offset < 0 || offset > size() || static_cast<int64_t>(out.size()) > size() - offset) {
    fail("{} bytes wanted at offset {}, the model has {}", out.size(), offset, size());
  }
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
}

std::span<const std::byte> FileSource::peek(int64_t offset, int64_t most) {
  if (offset < buffer_at_ || offset >= buffer_at_ + buffered_) {
    buffered_ = 0;
    const int64_t size = std::min(kBufferBytes, file_.size() - offset);
    file_.read_at(offset, std::span(buffer_).first(static_cast<size_t>(size)));
    buffer_at_ = offset;
    buffered_ = size;
  }
  const int64_t inside = offset - buffer_at_;
  return std::span<const std::byte>(buffer_).subspan(static_cast<size_t>(inside),
                                                     static_cast<size_t>(std::min(most, buffered_ - inside)));
}

void FileSource::read(int64_t offset, std::span<std::byte> out) {
  const auto wanted = static_cast<int64_t>(out.size());
  if (wanted == 0) return;
  if (wanted > kBufferBytes / 4 || offset < 0 || offset > file_.size() - wanted) {
    file_.read_at(offset, out);  // also refuses ranges outside the file
    return;
  }
  while (!out.empty()) {
    const auto piece = peek(offset, static_cast<int64_t>(out.size()));
    std::memcpy(out.data(), piece.data(), piece.size());
    out = out.subspan(piece.size());
    offset += static_cast<int64_t>(piece.size());
  }
}

}  // namespace sparkpilot
