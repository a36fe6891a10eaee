#include "base/file_hash.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/file.h"

namespace sparkpilot {

int64_t add_file(Fnv& hash, const std::filesystem::path& path) {
  constexpr int64_t kPiece = 1 << 20;
  const InputFile file(path);
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, file.size())));
  for (int64_t at = 0; at < file.size(); at += kPiece) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min(kPiece, file.size() - at)));
    file.read_at(at, part);
    hash.bytes(part.data(), part.size());
  }
  return file.size();
}

}  // namespace sparkpilot
