#include "stack/fatbin.h"

#include <algorithm>
#include <array>
#include <bit>

namespace sparkpilot::stack {
namespace {

static_assert(std::endian::native == std::endian::little, "the structures below are read as they lie");

constexpr uint32_t kMagic = 0xba55ed50, kElfMagic = 0x464c457f;
struct ContainerHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // behind the header
};
struct ImageHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;  // behind the header, with padding
  uint32_t packed_bytes, options;
  uint16_t minor, major;
  uint32_t number;
  uint32_t name, name_bytes;
  uint64_t flags;
  uint64_t reserved, unpacked_bytes;
};
struct CubinHeader {  // an ELF header, only the fields needed
  std::array<uint8_t, 16> ident;
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t header_bytes, program_header_bytes, program_header_count, section_header_bytes, section_header_count, names;
};
static_assert(sizeof(ContainerHeader) == 16 && sizeof(ImageHeader) == 64 && sizeof(CubinHeader) == 64);

constexpr uint16_t kPtx = 1, kCubin = 2, kLto = 8;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000, kArchitectureOnly = 0x100000, kFamily = 0x200000;
constexpr uint16_t kCudaMachine = 190;
constexpr uint64_t kStep = 8;

FatbinImage image_of(const ImageHeader& header) {
  FatbinImage image;
  image.target.kind = header.kind == kPtx     ? CodeKind::ptx
                      : header.kind == kCubin ? CodeKind::sass
                      : header.kind == kLto   ? CodeKind::lto
                                              : CodeKind::other;
  image.target.number = static_cast<int>(header.number & 0xffff);
  image.target.suffix = header.flags & kArchitectureOnly ? 'a' : header.flags & kFamily ? 'f' : '\0';
  image.compressed = (header.flags & (kLz4 | kZstd)) != 0;
  image.bytes = header.bytes;
  image.unpacked_bytes = image.compressed ? header.unpacked_bytes : header.bytes;
  if (header.kind == kPtx) {
    image.ptx_major = header.major;
    image.ptx_minor = header.minor;
  }
  return image;
}

class Finder {
 public:
  Finder(const Source& source, uint64_t begin, uint64_t end, const std::function<void(const Fatbin&)>& found)
      : source_(source), at_((begin + kStep - 1) / kStep * kStep), end_(std::min(end, source.size())), found_(found) {}

  void run() {
    while (seek()) {
      if (!take_container() && !take_cubin()) at_ += kStep;
    }
  }

 private:
  // Moves on to the next place where a container or a cubin may begin; false at the end.
  bool seek();
  bool take_container();
  bool take_cubin();
  bool has(uint64_t at, uint64_t bytes) const { return at <= end_ && bytes <= end_ - at; }

  const Source& source_;
  uint64_t at_;
  const uint64_t end_;
  const std::function<void(const Fatbin&)>& found_;
  Fatbin fatbin_;
  std::vector<uint64_t> words_;
};

bool Finder::seek() {
  // Containers mostly follow each other directly: search a little first, then in growing pieces.
  constexpr uint64_t kMin = 32, kMax = 1 << 17;  // words
  for (uint64_t words = kMin; has(at_, kStep); words = std::min(words * 4, kMax)) {
    words_.resize(std::min(words, (end_ - at_) / kStep));
    source_.read(at_, std::as_writable_bytes(std::span(words_)));
    const auto hit = std::find_if(words_.begin(), words_.end(), [](uint64_t word) {
      const auto low = static_cast<uint32_t>(word);
      return low == kMagic || low == kElfMagic;
    });
    at_ += static_cast<uint64_t>(hit - words_.begin()) * kStep;
    if (hit != words_.end()) return true;
  }
  return false;
}

bool Finder::take_container() {
  if (!has(at_, sizeof(ContainerHeader))) return false;
  const auto header = source_.load<ContainerHeader>(at_);
  if (header.magic != kMagic || header.version != 1 || header.header_bytes != sizeof header) return false;
  fatbin_ = {at_, false, false, std::move(fatbin_.images)};
  fatbin_.images.clear();
  uint64_t at = at_ + sizeof header;
  fatbin_.damaged = !has(at, header.bytes);
  const uint64_t end = fatbin_.damaged ? end_ : at + header.bytes;
  while (at < end) {
    if (end - at < sizeof(ImageHeader)) {
      fatbin_.damaged = true;
      break;
    }
    const auto image = source_.load<ImageHeader>(at);
    const uint64_t left = end - at;
    if (image.header_bytes < sizeof image || image.header_bytes > left || image.bytes > left - image.header_bytes) {
      fatbin_.damaged = true;
      break;
    }
    fatbin_.images.push_back(image_of(image));
    at += image.header_bytes + image.bytes;
  }
  if (fatbin_.damaged && fatbin_.images.empty()) return false;
  found_(fatbin_);
  // After damage the search goes on where the chain of images broke off, neither at the container's claimed end nor at
  // its start.
  at_ = (at + kStep - 1) / kStep * kStep;
  return true;
}

bool Finder::take_cubin() {
  if (!has(at_, sizeof(CubinHeader))) return false;
  const auto header = source_.load<CubinHeader>(at_);
  const auto& ident = header.ident;
  if (ident[0] != 0x7f || ident[4] != 2 || ident[5] != 1 || header.machine != kCudaMachine) return false;
  // A cubin ends with its section table.
  const uint64_t table = uint64_t{header.section_header_bytes} * header.section_header_count;
  if (header.section_headers < sizeof header || !has(at_, header.section_headers)) return false;
  const uint64_t bytes = header.section_headers + table;
  if (!has(at_, bytes)) return false;
  // Two layouts of the flags, distinguished by the ABI version.
  constexpr uint8_t kNewInterface = 8;
  const uint32_t number = ident[8] >= kNewInterface ? header.flags >> 8 & 0xff : header.flags & 0xff;
  const CodeTarget target{CodeKind::sass, static_cast<int>(number), '\0'};
  fatbin_ = {at_, true, false, {FatbinImage{target, false, bytes, bytes, 0, 0}}};
  found_(fatbin_);
  at_ = (at_ + bytes + kStep - 1) / kStep * kStep;
  return true;
}

}  // namespace

void find_fatbins(const Source& source, uint64_t begin, uint64_t end, const std::function<void(const Fatbin&)>& found) {
  Finder(source, begin, end, found).run();
}

}  // namespace sparkpilot::stack
