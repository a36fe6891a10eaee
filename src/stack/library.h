// One file of the ML stack: a shared library, a Python extension, or a compiler.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stack/gpu_code.h"

namespace sparkpilot::stack {

struct Library {
  std::string path;                   // inside the tree; "x.whl!torch/lib/libc10.so" in a wheel
  std::string component;              // "cuBLASLt"; empty if unknown
  std::string package;                // the Python package that it came with; empty for a system library
  std::string version, version_from;  // "2.28.9" and "package", "file name", "its text", "header" or "SONAME"
  std::string machine, soname, build_id;
  std::vector<std::string> needed, run_path, damage;
  bool stripped = false;
  int64_t bytes = 0;
  GpuCode code;
  std::vector<CodeTarget> compiles_for;  // of a compiler
  std::string trouble;                   // why it could not be read
};

// The component that a file name or a Python package belongs to: "cuDNN", "PyTorch"; empty for others.
std::string_view component_of_file(std::string_view file_name);
std::string_view component_of_package(std::string_view package);

// The components that a machine for training and inference is expected to have, in the order of a report.
const std::vector<std::string_view>& core_components();

// Reads the ELF file, its GPU code, and the version as far as the file itself shows it. Errors are reported in
// `trouble`; nothing is thrown.
Library inspect(const Source& source, std::string path);

// "13.1.0.3" of "libcublasLt.so.13.1.0.3" or "libc10-2.9.so"; empty if the name has no version of at least two numbers.
std::string version_in_name(std::string_view file_name);

// Whether a name is a shared library's: "x.so", "libx.so.9".
bool is_library_name(std::string_view file_name);
// "ptxas", "ptxas-blackwell", "nvcc": programs that are examined.
bool is_compiler_name(std::string_view file_name);

}  // namespace sparkpilot::stack
