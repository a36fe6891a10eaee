// Builds ELF files and fat binaries for tests and as first inputs of the fuzz targets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "stack/gpu.h"

namespace sparkpilot::stack {

inline void put(std::string& out, uint64_t value, size_t bytes) {
  out.append(reinterpret_cast<const char*>(&value),
             std::min(bytes, sizeof value));  // little-endian, like everything here
  out.append(bytes - std::min(bytes, sizeof value), '\0');
}
inline void poke(std::string& out, size_t at, uint64_t value, size_t bytes) {
  std::memcpy(out.data() + at, &value, bytes);
}
inline void pad(std::string& out, size_t step) { out.resize((out.size() + step - 1) / step * step); }

struct TestImage {
  uint16_t kind = 2;  // 1 PTX, 2 machine code, 8 LTO
  int number = 120;
  char suffix = '\0';
  bool compressed = false;
  size_t bytes = 64;
  uint64_t unpacked = 256;
};
inline TestImage sass(int number, char suffix = '\0') { return {2, number, suffix}; }
inline TestImage ptx(int number, char suffix = '\0') { return {1, number, suffix}; }

// A container with these images, each with a header of 64 bytes.
inline std::string fatbin(const std::vector<TestImage>& images) {
  std::string body;
  for (const TestImage& image : images) {
    put(body, image.kind, 2);
    put(body, 0x101, 2);
    put(body, 64, 4);
    put(body, image.bytes, 8);
    put(body, image.compressed ? image.bytes : 0, 4);
    put(body, 0, 4);
    put(body, image.kind == 1 ? 3 : 8, 2);  // the version, minor first
    put(body, image.kind == 1 ? 9 : 1, 2);
    put(body, static_cast<uint64_t>(image.number), 4);
    put(body, 0, 8);
    put(body,
        uint64_t{0x11} | (image.suffix == 'a' ? 0x100000U : 0U) | (image.suffix == 'f' ? 0x200000U : 0U) |
            (image.compressed ? 0x8000U : 0U),
        8);
    put(body, 0, 8);
    put(body, image.compressed ? image.unpacked : 0, 8);
    body.append(image.bytes, '\x55');
  }
  std::string out;
  put(out, 0xba55ed50, 4);
  put(out, 1, 2);
  put(out, 16, 2);
  put(out, body.size(), 8);
  return out + body;
}

struct TestSection {
  std::string name, bytes;
  bool executable = false;
};

struct TestElf {
  uint16_t machine = 183;  // aarch64
  std::string soname = "libtest.so.1", run_path;
  std::vector<std::string> needed;
  std::vector<TestSection> sections;
  bool section_table = true;
  std::string build_id = "\x12\x34\xab";
};

namespace detail {
inline void put_section(std::string& out, uint64_t name, uint32_t type, uint64_t flags, uint64_t offset,
                        uint64_t bytes) {
  put(out, name, 4);
  put(out, type, 4);
  put(out, flags, 8);
  put(out, offset, 8);  // loaded at its file offset
  put(out, offset, 8);
  put(out, bytes, 8);
  put(out, 0, 8);
  put(out, 8, 8);
  put(out, 0, 8);
}
inline void put_segment(std::string& out, uint32_t type, uint64_t offset, uint64_t bytes) {
  put(out, type, 4);
  put(out, 4, 4);
  for (const uint64_t value : {offset, offset, offset, bytes, bytes, uint64_t{8}}) put(out, value, 8);
}
inline std::string note(const std::string& id) {
  std::string out;
  put(out, 4, 4);
  put(out, id.size(), 4);
  put(out, 3, 4);
  out += std::string("GNU\0", 4) + id;
  pad(out, 4);
  return out;
}
}  // namespace detail

// A shared library: header, three segments (all of it, dynamic, note), sections, strings, the table of sections.
inline std::string elf_file(const TestElf& elf) {
  constexpr size_t kSegments = 3, kHeader = 64 + kSegments * 56;
  std::string strings(1, '\0'), dynamic;
  const auto entry = [&](uint64_t tag, const std::string& text) {
    put(dynamic, tag, 8);
    put(dynamic, strings.size(), 8);
    strings += text + '\0';
  };
  if (!elf.soname.empty()) entry(14, elf.soname);
  if (!elf.run_path.empty()) entry(29, elf.run_path);
  for (const std::string& library : elf.needed) entry(1, library);
  const size_t strings_at = kHeader;
  put(dynamic, 5, 8);
  put(dynamic, strings_at, 8);
  dynamic.append(16, '\0');

  std::string out(kHeader, '\0');
  out += strings;
  pad(out, 8);
  const size_t dynamic_at = out.size();
  out += dynamic;
  const size_t note_at = out.size();
  const std::string id = detail::note(elf.build_id);
  out += id;
  std::string names(1, '\0'), table;
  detail::put_section(table, 0, 0, 0, 0, 0);
  for (const TestSection& section : elf.sections) {
    pad(out, 8);
    detail::put_section(table, names.size(), 1, section.executable ? 6 : 2, out.size(), section.bytes.size());
    names += section.name + '\0';
    out += section.bytes;
  }
  detail::put_section(table, names.size(), 3, 0, out.size(), names.size() + 10);
  names += std::string(".shstrtab\0", 10);
  if (elf.section_table) out += names;
  pad(out, 8);
  const size_t table_at = out.size();
  if (elf.section_table) out += table;

  std::string header(
      "\x7f"
      "ELF\2\1\1",
      7);
  header.resize(16);
  put(header, 3, 2);
  put(header, elf.machine, 2);
  put(header, 1, 4);
  put(header, 0, 8);
  put(header, 64, 8);
  put(header, elf.section_table ? table_at : 0, 8);
  put(header, 0, 4);
  put(header, 64, 2);
  put(header, 56, 2);
  put(header, kSegments, 2);
  put(header, elf.section_table ? 64 : 0, 2);
  put(header, elf.section_table ? elf.sections.size() + 2 : 0, 2);
  put(header, elf.section_table ? elf.sections.size() + 1 : 0, 2);
  detail::put_segment(header, 1, 0, out.size());
  detail::put_segment(header, 2, dynamic_at, dynamic.size());
  detail::put_segment(header, 4, note_at, id.size());
  std::copy(header.begin(), header.end(), out.begin());
  return out;
}

// Machine code without a container: a cubin's ELF header followed by a table of sections.
inline std::string cubin(int number, bool new_interface = true) {
  std::string out(
      "\x7f"
      "ELF\2\1\1",
      7);
  out += new_interface ? "\x41\x08" : "\x33\x07";
  out.resize(16);
  put(out, 2, 2);
  put(out, 190, 2);
  put(out, 1, 4);
  put(out, 0, 16);
  put(out, 128, 8);
  put(out, new_interface ? 0x6000002U | static_cast<unsigned>(number) << 8 : 0x500U | static_cast<unsigned>(number), 4);
  put(out, 64, 2);
  put(out, 56, 2);
  put(out, 0, 2);
  put(out, 64, 2);
  put(out, 2, 2);
  put(out, 1, 2);
  out.resize(256);
  return out;
}

}  // namespace sparkpilot::stack
