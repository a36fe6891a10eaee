// The headers of an ELF file: its machine, name, dependencies, and where its data is.
//
// All offsets come from the file itself, so each is checked; what lies outside is omitted and reported in `damage`.
// Users' files are 64-bit and little-endian; for others only the machine is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/source.h"

namespace sparkpilot::stack {

// A part of the file that is loaded as data: a section, or a segment if the file has no sections.
struct DataRange {
  std::string name;  // ".nv_fatbin", "segment 2"
  uint64_t offset = 0, bytes = 0;
};

struct Elf {
  std::string machine;  // as `uname -m` names it: "x86_64", "aarch64"; "machine 8" for others
  int bits = 64;
  bool big_endian = false;
  std::string soname, build_id;               // empty if the file has none
  std::vector<std::string> needed, run_path;  // libraries; folders, the older RPATH too
  bool sections = false, stripped = true;     // a table of sections; no symbol table among them
  std::vector<DataRange> data;                // by offset, none overlapping another
  std::vector<std::string> damage;
  bool cut = false;  // ends before the end of a loaded segment: no loader accepts it
};

// Whether the source begins like an ELF file.
bool is_elf(const Source& source);

// Fails (user) if it is not an ELF file or its header is truncated.
Elf read_elf(const Source& source);

}  // namespace sparkpilot::stack
