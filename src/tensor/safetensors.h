// Safetensors files: named tensors behind a header of JSON. Format: https://github.com/huggingface/safetensors.
//
// A file is the header's length (8 bytes, little-endian), the header {name: {dtype, shape, data_offsets}}, which may
// hold "__metadata__": {string: string}, and the data without gaps. Types: BOOL, integers and floats of 8 to 64 bits,
// and of the 8-bit floats F8_E4M3, F8_E5M2 and F8_E8M0; tensors of up to Shape::kMaxRank dimensions. A boolean that is
// neither 0 nor 1 is read as true.
//
// Files are untrusted. Refused (user), naming the file: a header above 100 MB or cut off, other JSON than the above, a
// name twice, an unknown type, tensors that overlap, leave a gap or lie outside of the file, a size that does not fit
// type and shape, bytes after the last tensor. Nothing is allocated for data that the file does not hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace sparkpilot {

struct SafetensorsFile {
  std::vector<std::pair<std::string, Tensor>> tensors;  // in the order of their offsets
  std::map<std::string, std::string> metadata;
};

SafetensorsFile load_safetensors(const std::filesystem::path& path);

// The file appears complete or not at all. The data is in the order given, except that types of more bytes come first,
// so that every tensor is aligned. Fails (user) if a name is there twice, or reserved, or not UTF-8; on a type that the
// format lacks; with the system's reason if it cannot be written.
void save_safetensors(const std::filesystem::path& path, const SafetensorsFile& file);

// Reads parts of a file that stays open. Its const functions may be called by several threads.
class SafetensorsReader {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::none;
    Shape shape;
    int64_t offset = 0;  // in the file
    // Of the first axis; a tensor without axes is one row.
    int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
    int64_t bytes() const { return storage_bytes(dtype, shape.elements()); }
    int64_t row_bytes() const { return storage_bytes(dtype, shape.rank() == 0 ? 1 : shape.elements(1, shape.rank())); }
  };

  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their offsets
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Null if the file has no tensor of this name.
  const Entry* find(std::string_view name) const;

  Tensor read(std::string_view name) const;
  // Rows [begin, begin + rows) of the first axis. Fails (user) outside of the tensor.
  void read(std::string_view name, int64_t begin, int64_t rows, std::byte* to) const;

 private:
  const Entry& at(std::string_view name) const;
  void read_bytes(const Entry& entry, int64_t offset, std::span<std::byte> out) const;

  InputFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// Writes a file row by row: tensors that grow together along their first axis. Each has its place in the file from the
// beginning, so that a row is written once; what `max_rows` reserved and nobody wrote is closed by commit().
class SafetensorsWriter {
 public:
  struct Column {
    std::string name;
    DType dtype = DType::none;
    Shape row;  // of one row, without the first axis
  };
  // Fails (user) as save_safetensors() does.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<Column> columns, int64_t max_rows,
                    std::map<std::string, std::string> metadata);

  // One row of each column, in their order. Fails (internal) beyond `max_rows`.
  void append(std::span<const std::byte* const> row);
  int64_t rows() const { return rows_; }
  // Closes the file and gives it its name; without it nothing remains.
  void commit();

 private:
  void write_at(int64_t offset, const void* data, int64_t bytes) const;
  void close_gaps();

  std::filesystem::path path_;
  std::vector<Column> columns_;
  std::vector<size_t> order_;     // of the columns in the file
  std::vector<int64_t> offsets_;  // of each column's data in the file
  std::map<std::string, std::string> metadata_;
  int64_t max_rows_, header_bytes_ = 0, rows_ = 0;
  AtomicFile file_;
};

}  // namespace sparkpilot
