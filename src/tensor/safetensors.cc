#include "tensor/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/with_file.h"
#include "tensor/safetensors_header.h"

namespace sparkpilot {

SafetensorsFile load_safetensors(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  SafetensorsFile out;
  out.metadata = reader.metadata();
  for (const auto& entry : reader.entries()) out.tensors.emplace_back(entry.name, reader.read(entry.name));
  return out;
}

void save_safetensors(const std::filesystem::path& path, const SafetensorsFile& file) {
  std::vector<DType> dtypes;
  for (const auto& [name, tensor] : file.tensors) dtypes.push_back(tensor.dtype());
  const std::vector<size_t> order = safetensors_order(dtypes);
  SafetensorsHeader header{{}, file.metadata};
  int64_t at = 0;
  for (const size_t i : order) {
    const auto& [name, tensor] = file.tensors[i];
    if (!host_reaches(tensor.place())) fail_internal("tensor \"{}\" is not in the processor's memory", name);
    header.entries.push_back({name, tensor.dtype(), tensor.shape(), at});
    at += tensor.bytes();
  }
  std::string start;
  with_file(path, [&] { start = format_safetensors_header(header); });
  AtomicFile out(path);
  out.write(start);
  for (const size_t i : order) {
    const Tensor& tensor = file.tensors[i].second;
    out.write(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  }
  out.commit();
}

// ---------------------------------------------------------------- reading
SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(path) {
  with_file(path, [&] {
    unsigned char start[kSafetensorsLength] = {};
    if (file_.size() < kSafetensorsLength) fail("it is too short for a safetensors file: {} bytes", file_.size());
    file_.read_at(0, std::as_writable_bytes(std::span(start)));
    uint64_t length = 0;
    for (int i = kSafetensorsLength - 1; i >= 0; --i) length = length << 8 | start[i];
    if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
      fail("its header has {} bytes, at most {} are expected: no safetensors file?", length, kMaxSafetensorsHeader);
    }
    const int64_t data_at = kSafetensorsLength + static_cast<int64_t>(length);
    if (data_at > file_.size()) fail("its header of {} bytes is cut off: the file has {}", length, file_.size());
    std::string text(length, '\0');
    file_.read_at(kSafetensorsLength, std::as_writable_bytes(std::span(text.data(), text.size())));
    SafetensorsHeader header = parse_safetensors_header(text, file_.size() - data_at);
    entries_ = std::move(header.entries);
    metadata_ = std::move(header.metadata);
    for (size_t i = 0; i < entries_.size(); ++i) {
      entries_[i].offset += data_at;
      index_.emplace(entries_[i].name, i);
    }
  });
}

const SafetensorsReader::Entry* SafetensorsReader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const SafetensorsReader::Entry& SafetensorsReader::at(std::string_view name) const {
  const Entry* const entry = find(name);
  if (!entry) fail("{}: it has no tensor \"{}\"", path().string(), name);
  return *entry;
}

void SafetensorsReader::read_bytes(const Entry& entry, int64_t offset, std::span<std::byte> out) const {
  file_.read_at(entry.offset + offset, out);
  if (entry.dtype != DType::boolean) return;  // any byte other than 0 and 1 would be undefined as a bool
  for (std::byte& byte : out) byte = std::byte{byte != std::byte{0}};
}

Tensor SafetensorsReader::read(std::string_view name) const {
  const Entry& entry = at(name);
  Tensor out(entry.dtype, entry.shape);
  read_bytes(entry, 0, {static_cast<std::byte*>(out.raw()), static_cast<size_t>(out.bytes())});
  return out;
}

void SafetensorsReader::read(std::string_view name, int64_t begin, int64_t rows, std::byte* to) const {
  const Entry& entry = at(name);
  if (begin < 0 || rows < 0 || begin > entry.rows() || rows > entry.rows() - begin) {
    fail("{}: tensor \"{}\" has {} rows, {} from {} on were asked for", path().string(), name, entry.rows(), rows,
         begin);
  }
  read_bytes(entry, begin * entry.row_bytes(), {to, static_cast<size_t>(rows * entry.row_bytes())});
}

// ---------------------------------------------------------------- writing row by row
namespace {

SafetensorsHeader header_of(const std::vector<SafetensorsWriter::Column>& columns, const std::vector<size_t>& order,
                            int64_t rows, const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header{{}, metadata};
  int64_t at = 0;
  for (const size_t i : order) {
    header.entries.push_back({columns[i].name, columns[i].dtype, columns[i].row.inserted(0, rows), at});
    if (__builtin_add_overflow(at, header.entries.back().bytes(), &at)) fail("{} rows are too many", rows);
  }
  return header;
}

std::vector<size_t> order_of(const std::vector<SafetensorsWriter::Column>& columns) {
  std::vector<DType> dtypes;
  for (const auto& column : columns) dtypes.push_back(column.dtype);
  return safetensors_order(dtypes);
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<Column> columns, int64_t max_rows,
                                     std::map<std::string, std::string> metadata)
    : path_(path),
      columns_(std::move(columns)),
      order_(order_of(columns_)),
      offsets_(columns_.size()),
      metadata_(std::move(metadata)),
      max_rows_(max_rows),
      file_(path) {
  with_file(path_, [&] {
    // No number of it will be longer than those of the full file.
    const SafetensorsHeader header = header_of(columns_, order_, max_rows_, metadata_);
    header_bytes_ = static_cast<int64_t>(format_safetensors_header(header).size());
    for (size_t i = 0; i < order_.size(); ++i) offsets_[order_[i]] = header_bytes_ + header.entries[i].offset;
  });
}

void SafetensorsWriter::write_at(int64_t offset, const void* data, int64_t bytes) const {
  const auto* cursor = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(file_.fd(), cursor, static_cast<size_t>(bytes), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
    cursor += put;
    offset += put;
    bytes -= put;
  }
}

void SafetensorsWriter::append(std::span<const std::byte* const> row) {
  if (rows_ >= max_rows_ || row.size() != columns_.size()) {
    fail_internal("{}: row {} of {}, {} columns of {}", path_.string(), rows_, max_rows_, row.size(), columns_.size());
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const int64_t bytes = storage_bytes(columns_[i].dtype, columns_[i].row.elements());
    write_at(offsets_[i] + rows_ * bytes, row[i], bytes);
  }
  ++rows_;
}

// Later columns are moved towards the front, in their order, so nothing is overwritten before it is read.
void SafetensorsWriter::close_gaps() {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<std::byte> piece(static_cast<size_t>(kPiece));
  int64_t to = header_bytes_;
  for (const size_t i : order_) {
    const int64_t bytes = rows_ * storage_bytes(columns_[i].dtype, columns_[i].row.elements());
    for (int64_t done = 0; done < bytes && offsets_[i] != to;) {
      const ssize_t got =
          ::pread(file_.fd(), piece.data(), static_cast<size_t>(std::min(kPiece, bytes - done)), offsets_[i] + done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("{}: cannot read back: {}", path_.string(), got < 0 ? std::strerror(errno) : "it was cut");
      write_at(to + done, piece.data(), got);
      done += got;
    }
    offsets_[i] = to;
    to += bytes;
  }
  if (::ftruncate(file_.fd(), to) != 0) fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
}

void SafetensorsWriter::commit() {
  if (rows_ < max_rows_) close_gaps();
  with_file(path_, [&] {
    const std::string header = format_safetensors_header(header_of(columns_, order_, rows_, metadata_), header_bytes_);
    write_at(0, header.data(), static_cast<int64_t>(header.size()));
  });
  file_.commit();
}

}  // namespace sparkpilot
