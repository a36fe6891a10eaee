// TensorBoard event files: curves as the field's viewer reads them.
//
// A file is records: length (8 bytes, little-endian), masked CRC-32C of the length, the data, masked CRC-32C of the
// data (TensorFlow, core/lib/io/record_writer.h). Each holds an Event in protobuf's wire format
// (tensorflow/core/util/event.proto): wall_time = 1, step = 2, file_version = 3, summary = 5 {value = 1 {tag = 1,
// simple_value = 2}}, session_log = 7 {status = 1}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparkpilot::train {

// CRC-32C (Castagnoli) of bytes.
uint32_t crc32c(std::string_view bytes);

class EventFile {
 public:
  // Makes a new file FOLDER/events.out.tfevents.<seconds>.<name>; readers drop what earlier files of the folder hold at
  // steps from `first_step` on. `now` is in seconds since 1970. Fails (user) with the system's reason.
  EventFile(const std::filesystem::path& folder, std::string_view name, int64_t first_step, double now);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Adds one point to each curve; in the file when it returns. Fails (user) with the system's reason.
  void add(int64_t step, const std::vector<std::pair<std::string, double>>& values, double now);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write(const std::string& event);

  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace sparkpilot::train
