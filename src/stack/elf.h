// What an ELF file says about itself: for which machine, under which name, what it needs, and where its data lies.
//
// All that is read comes through offsets that the file itself gives; each is checked, and what lies outside is left out
// and said in `damage`. Files that users have are 64-bit and little-endian; of others only the machine is told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/source.h"

namespace sparkpilot::stack {

// A part of the file that is loaded as data: a section, or a segment where the file has no sections.
struct DataRange {
  std::string name;  // ".nv_fatbin", "segment 2"
  uint64_t offset = 0, bytes = 0;
};

struct Elf {
  std::string machine;  // as `uname -m` names it: "x86_64", "aarch64"; "machine 8" where it is another
  int bits = 64;
  bool big_endian = false;
  std::string soname, build_id;               // empty where the file has none
  std::vector<std::string> needed, run_path;  // libraries; folders, the older RPATH too
  bool sections = false, stripped = true;     // a table of sections; no symbol table among them
  std::vector<DataRange> data;                // by offset, none overlapping another
  std::vector<std::string> damage;
  bool cut = false;  // ends before a segment that is loaded does: no loader takes it
};

// Whether the source begins as an ELF file does.
bool is_elf(const Source& source);

// Fails (user) where it is no ELF file or its header is cut.
Elf read_elf(const Source& source);

}  // namespace sparkpilot::stack
