#include "stack/elf.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"

namespace sparkpilot::stack {
namespace {

// As in the ELF-64 specification; little-endian like every machine that this runs on.
struct FileHeader {
  std::array<uint8_t, 16> ident;
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t header_size, program_header_size, program_header_count, section_header_size, section_header_count, names;
};
struct ProgramHeader {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_bytes, memory_bytes, align;
};
struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, bytes;
  uint32_t link, info;
  uint64_t align, entry_bytes;
};
struct Dynamic {
  uint64_t tag, value;
};
struct NoteHeader {
  uint32_t name_bytes, bytes, type;
};
static_assert(sizeof(FileHeader) == 64 && sizeof(ProgramHeader) == 56 && sizeof(SectionHeader) == 64);

constexpr uint32_t kLoad = 1, kDynamic = 2, kNote = 4;  // program headers
constexpr uint32_t kSymbols = 2, kNoBits = 8;           // sections
constexpr uint64_t kAllocated = 2, kExecutable = 4;
constexpr uint64_t kNeeded = 1, kStrings = 5, kSoname = 14, kRpath = 15, kRunpath = 29;  // dynamic entries
constexpr uint32_t kBuildId = 3;
// Far more than linkers write: a table that claims more is damaged.
constexpr uint64_t kMaxHeaders = 1 << 20, kMaxDynamic = 1 << 14, kMaxNeeded = 1 << 10;
constexpr size_t kLongestName = 1024;

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case 3: return "i386";
    case 40: return "arm";
    case 62: return "x86_64";
    case 183: return "aarch64";
    case 190: return "cuda";
    case 21: return "ppc64";
    case 243: return "riscv64";
    default: return fmt::format("machine {}", machine);
  }
}

class Reader {
 public:
  explicit Reader(const Source& source) : source_(source) {}
  Elf read();

 private:
  template <typename Header>
  std::vector<Header> table(uint64_t offset, uint64_t count, uint64_t entry_bytes, const char* what);
  void read_sections();
  void take_segments();
  void read_dynamic();
  void read_notes(const ProgramHeader& segment);
  void keep_apart();
  // The offset in the file of an address of the loaded library.
  std::optional<uint64_t> offset_of(uint64_t address) const;
  void damaged(std::string what) { elf_.damage.push_back(std::move(what)); }

  const Source& source_;
  FileHeader header_{};
  std::vector<ProgramHeader> segments_;
  Elf elf_;
};

template <typename Header>
std::vector<Header> Reader::table(uint64_t offset, uint64_t count, uint64_t entry_bytes, const char* what) {
  std::vector<Header> list;
  if (offset == 0 || count == 0) return list;
  if (entry_bytes != sizeof(Header) || count > kMaxHeaders || !source_.holds(offset, count * sizeof(Header))) {
    damaged(fmt::format("{} entries of {} bytes at {} are no table of {} in {} bytes", count, entry_bytes, offset, what,
                        source_.size()));
    return list;
  }
  list.resize(count);
  source_.read(offset, std::as_writable_bytes(std::span(list)));
  return list;
}

void Reader::read_sections() {
  uint64_t count = header_.section_header_count, names = header_.names;
  const uint64_t at = header_.section_headers;
  if (at != 0 && source_.holds(at, sizeof(SectionHeader))) {
    // Counts that do not fit the header are stored in the first section.
    const auto first = source_.load<SectionHeader>(at);
    if (count == 0) count = first.bytes;
    if (names == 0xffff) names = first.link;
  }
  const auto sections = table<SectionHeader>(at, count, header_.section_header_size, "sections");
  elf_.sections = !sections.empty();
  for (const SectionHeader& section : sections) {
    elf_.stripped = elf_.stripped && section.type != kSymbols;
    if (section.type == kNoBits || section.bytes == 0 || (section.flags & kAllocated) == 0 ||
        (section.flags & kExecutable)) {
      continue;
    }
    std::string name;
    if (names < sections.size()) name = source_.text(sections[names].offset + section.name, 64);
    if (!source_.holds(section.offset, section.bytes)) {
      damaged(fmt::format("section \"{}\" of {} bytes at {} ends behind the file's {}", name, section.bytes,
                          section.offset, source_.size()));
      continue;
    }
    elf_.data.push_back({std::move(name), section.offset, section.bytes});
  }
}

void Reader::take_segments() {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const ProgramHeader& segment = segments_[i];
    // Older linkers put constants into the code segment.
    if (segment.type != kLoad || segment.file_bytes == 0) continue;
    if (segment.offset >= source_.size()) {
      damaged(fmt::format("segment {} begins at {}, behind the file's {} bytes", i, segment.offset, source_.size()));
      continue;
    }
    const uint64_t bytes = std::min(segment.file_bytes, source_.size() - segment.offset);
    if (bytes < segment.file_bytes) damaged(fmt::format("segment {} is cut at the file's end", i));
    elf_.data.push_back({fmt::format("segment {}", i), segment.offset, bytes});
  }
}

std::optional<uint64_t> Reader::offset_of(uint64_t address) const {
  for (const ProgramHeader& segment : segments_) {
    if (segment.type == kLoad && address >= segment.address && address - segment.address < segment.file_bytes) {
      const uint64_t offset = segment.offset + (address - segment.address);
      return offset < source_.size() ? std::optional(offset) : std::nullopt;
    }
  }
  return std::nullopt;
}

void Reader::read_dynamic() {
  const auto found = std::find_if(segments_.begin(), segments_.end(), [](const auto& s) { return s.type == kDynamic; });
  if (found == segments_.end()) return;
  std::vector<Dynamic> entries;
  std::optional<uint64_t> strings;
  for (uint64_t i = 0; i < std::min(found->file_bytes / sizeof(Dynamic), kMaxDynamic); ++i) {
    const uint64_t at = found->offset + i * sizeof(Dynamic);
    if (at < found->offset || !source_.holds(at, sizeof(Dynamic))) return damaged("its dynamic section is cut");
    const auto entry = source_.load<Dynamic>(at);
    if (entry.tag == 0) break;
    if (entry.tag == kStrings) strings = offset_of(entry.value);
    entries.push_back(entry);
  }
  if (!strings) {
    if (!entries.empty()) damaged("its dynamic section has no table of strings");
    return;
  }
  for (const Dynamic& entry : entries) {
    if (entry.value > source_.size()) continue;
    const uint64_t at = *strings + entry.value;
    if (entry.tag == kSoname) elf_.soname = source_.text(at, kLongestName);
    if (entry.tag == kNeeded && elf_.needed.size() < kMaxNeeded) elf_.needed.push_back(source_.text(at, kLongestName));
    if ((entry.tag == kRunpath || entry.tag == kRpath) && elf_.run_path.empty()) {
      const std::string folders = source_.text(at, kLongestName);
      for (size_t begin = 0; begin < folders.size();) {
        const size_t end = std::min(folders.find(':', begin), folders.size());
        if (end > begin) elf_.run_path.push_back(folders.substr(begin, end - begin));
        begin = end + 1;
      }
    }
  }
}

void Reader::read_notes(const ProgramHeader& segment) {
  constexpr uint64_t kMaxNotes = 64;
  uint64_t at = segment.offset;
  const uint64_t end = source_.holds(at, segment.file_bytes) ? at + segment.file_bytes : 0;
  for (uint64_t i = 0; i < kMaxNotes && at < end && end - at >= sizeof(NoteHeader); ++i) {
    const auto note = source_.load<NoteHeader>(at);
    const auto padded = [](uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; };
    const uint64_t name = at + sizeof note, bytes = name + padded(note.name_bytes);
    if (bytes + note.bytes > end) return;
    if (note.type == kBuildId && note.name_bytes == 4 && note.bytes > 0 && note.bytes <= 64 &&
        source_.text(name, 4) == "GNU") {
      std::array<uint8_t, 64> id{};
      source_.read(bytes, std::as_writable_bytes(std::span(id)).first(note.bytes));
      for (size_t k = 0; k < note.bytes; ++k) elf_.build_id += fmt::format("{:02x}", id[k]);
      return;
    }
    at = bytes + padded(note.bytes);
  }
}

// Makes ranges disjoint, so that no byte is searched twice, whatever a file claims.
void Reader::keep_apart() {
  std::stable_sort(elf_.data.begin(), elf_.data.end(),
                   [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint64_t taken = 0;
  for (DataRange& range : elf_.data) {
    const uint64_t end = range.offset + range.bytes, begin = std::max(range.offset, taken);
    range = {std::move(range.name), begin, end > begin ? end - begin : 0};
    taken = std::max(taken, end);
  }
  std::erase_if(elf_.data, [](const DataRange& range) { return range.bytes == 0; });
}

Elf Reader::read() {
  if (!is_elf(source_)) fail("no ELF file: it does not begin with 7f 45 4c 46");
  const auto start = source_.load<std::array<uint8_t, 20>>(0);
  elf_.bits = start[4] == 1 ? 32 : 64;
  elf_.big_endian = start[5] == 2;
  elf_.machine =
      machine_name(static_cast<uint16_t>(elf_.big_endian ? start[18] << 8 | start[19] : start[19] << 8 | start[18]));
  if (elf_.bits == 32 || elf_.big_endian) return elf_;
  header_ = source_.load<FileHeader>(0);
  segments_ = table<ProgramHeader>(header_.program_headers, header_.program_header_count, header_.program_header_size,
                                   "segments");
  elf_.cut = segments_.empty() && header_.program_header_count > 0;
  elf_.cut |= std::ranges::any_of(segments_, [&](const ProgramHeader& segment) {
    return segment.type == kLoad && segment.file_bytes > 0 && !source_.holds(segment.offset, segment.file_bytes);
  });
  read_sections();
  if (!elf_.sections) take_segments();
  read_dynamic();
  for (const ProgramHeader& segment : segments_) {
    if (segment.type == kNote && elf_.build_id.empty()) read_notes(segment);
  }
  keep_apart();
  return elf_;
}

}  // namespace

bool is_elf(const Source& source) {
  return source.holds(0, 20) && source.load<std::array<uint8_t, 4>>(0) == std::array<uint8_t, 4>{0x7f, 'E', 'L', 'F'};
}

Elf read_elf(const Source& source) { return Reader(source).read(); }

}  // namespace sparkpilot::stack
