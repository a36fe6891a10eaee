#include "train/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace sparkpilot::train {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}

// As TensorFlow stores a CRC: it may be of bytes that hold one themselves.
uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

template <typename T>
void put(std::string& to, T value) {  // little-endian
  for (size_t i = 0; i < sizeof value; ++i) to += static_cast<char>(value >> (8 * i));
}

// --- protobuf's wire format
enum Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
void put_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}
void put_key(std::string& to, int field, Wire wire) { put_varint(to, static_cast<uint64_t>(field) << 3 | wire); }
void put_bytes(std::string& to, int field, std::string_view value) {
  put_key(to, field, bytes);
  put_varint(to, value.size());
  to += value;
}

std::string event_at(int64_t step, double now) {
  std::string out;
  put_key(out, 1, fixed64);
  put(out, std::bit_cast<uint64_t>(now));
  if (step != 0) {  // a default is not written
    put_key(out, 2, varint);
    put_varint(out, static_cast<uint64_t>(step));
  }
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, std::string_view name, int64_t first_step, double now) {
  make_folders(folder);
  // Two that begin in one second: readers take files by their names' order.
  for (int attempt = 0; attempt < 1000 && fd_ < 0; ++attempt) {
    path_ = folder / fmt::format("events.out.tfevents.{:010}.{:03}.{}", static_cast<int64_t>(now), attempt, name);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
  std::string version = event_at(0, now);
  put_bytes(version, 3, "brain.Event:2");
  write(version);
  std::string start = event_at(first_step, now), log;
  constexpr int kStart = 1;
  put_key(log, 1, varint);
  put_varint(log, kStart);
  put_bytes(start, 7, log);
  write(start);
}

EventFile::~EventFile() {
  if (fd_ >= 0) ::close(fd_);
}

void EventFile::add(int64_t step, const std::vector<std::pair<std::string, double>>& values, double now) {
  std::string event = event_at(step, now), summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    put_bytes(value, 1, tag);
    put_key(value, 2, fixed32);
    put(value, std::bit_cast<uint32_t>(static_cast<float>(number)));
    put_bytes(summary, 1, value);
  }
  put_bytes(event, 5, summary);
  write(event);
}

void EventFile::write(const std::string& event) {
  std::string record;
  put(record, static_cast<uint64_t>(event.size()));
  put(record, masked(crc32c(record)));
  record += event;
  put(record, masked(crc32c(event)));
  for (size_t at = 0; at < record.size();) {
    const ssize_t wrote = ::write(fd_, record.data() + at, record.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("{}: cannot be written: {}", path_.string(), std::strerror(wrote < 0 ? errno : ENOSPC));
    at += static_cast<size_t>(wrote);
  }
}

}  // namespace sparkpilot::train
