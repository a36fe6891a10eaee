#include "stack/gpu_code.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace sparkpilot::stack {

GpuCode find_gpu_code(const Source& source, const Elf& elf) {
  std::map<std::tuple<std::string, CodeTarget, bool>, CodeGroup> groups;
  std::map<std::vector<CodeTarget>, int64_t> mixes;
  GpuCode code;
  for (const DataRange& range : elf.data) {
    find_fatbins(source, range.offset, range.offset + range.bytes, [&](const Fatbin& fatbin) {
      code.damaged += fatbin.damaged;
      std::vector<CodeTarget> targets;
      for (const FatbinImage& image : fatbin.images) {
        CodeGroup& group = groups[{range.name, image.target, fatbin.bare}];
        ++group.images;
        group.compressed += image.compressed;
        group.bytes += static_cast<int64_t>(image.bytes);
        // Limited, so that a header's claims cannot make the sum overflow.
        group.unpacked_bytes += static_cast<int64_t>(std::min(image.unpacked_bytes, uint64_t{1} << 40));
        const std::pair newest{code.ptx_major, code.ptx_minor}, version{image.ptx_major, image.ptx_minor};
        std::tie(code.ptx_major, code.ptx_minor) = std::max(newest, version);
        targets.push_back(image.target);
      }
      std::sort(targets.begin(), targets.end());
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      if (!targets.empty()) ++mixes[std::move(targets)];
    });
  }
  for (auto& [key, group] : groups) {
    std::tie(group.section, group.target, group.bare) = key;
    code.groups.push_back(std::move(group));
  }
  for (const auto& [targets, containers] : mixes) code.mixes.push_back({targets, containers});
  return code;
}

std::vector<CodeTarget> find_compiler_targets(const Source& source, const Elf& elf) {
  // All compilers can link, so all contain these names; some assemble the other names at run time.
  constexpr std::string_view kName = "lto_";
  constexpr size_t kLongest = 16, kPiece = 1 << 20;
  std::set<CodeTarget> targets;
  std::string piece;
  for (const DataRange& range : elf.data) {
    for (uint64_t at = 0; at < range.bytes; at += kPiece) {
      // Pieces overlap, so that a name across the border is found whole.
      piece.resize(std::min<uint64_t>(kPiece + kLongest, range.bytes - at));
      source.read(range.offset + at, std::as_writable_bytes(std::span(piece.data(), piece.size())));
      for (const char* hit = piece.data(); hit < piece.data() + piece.size(); ++hit) {
        const auto left = static_cast<size_t>(piece.data() + piece.size() - hit);
        hit = static_cast<const char*>(::memmem(hit, left, kName.data(), kName.size()));
        if (!hit) break;
        const std::string_view name(
            hit, strnlen(hit, std::min(kLongest, static_cast<size_t>(piece.data() + piece.size() - hit))));
        if (const auto target = parse_target(name)) targets.insert({CodeKind::sass, target->number, target->suffix});
      }
    }
  }
  return {targets.begin(), targets.end()};
}

}  // namespace sparkpilot::stack
