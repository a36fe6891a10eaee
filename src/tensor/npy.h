// NumPy's .npy files: one array each. Format: numpy.lib.format, versions 1 to 3.
//
// Reads booleans, integers and floats of 16 to 64 bits, either byte order, C or Fortran order; objects, strings,
// records and complex numbers are refused, and pickles are never read. Writes version 1, little-endian, C order. Types
// that NumPy lacks are written as the next larger one: bf16 and the small floats as f32, packed integers as i8, u8.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace sparkpilot {

// Fails (user) with the file in the message. The data is read straight into the tensor.
Tensor load_npy(const std::filesystem::path& path);

// The same for bytes in memory; `name` stands for the file in messages.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name);

// The file appears complete or not at all. Fails (user) with the system's reason.
void save_npy(const std::filesystem::path& path, const ConstView& array);

// Everything before the data, for an array of a type that NumPy has.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace sparkpilot
