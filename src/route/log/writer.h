// Writes a log in openpilot's format: Cap'n Proto messages of type Event, one after the other, compressed as a whole.
#pragma once

#include <capnp/message.h>

#include <cstdint>
#include <filesystem>
#include <memory>

namespace sparkpilot::drive {

// The file's name decides: `.zst` (zstd), `.bz2`, anything else plain. Written to a temporary name; without commit()
// nothing remains. One thread uses a writer at a time.
class LogWriter {
 public:
  explicit LogWriter(const std::filesystem::path& path);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // `message` holds a cereal::Event. Fails (user) with the file and the system's reason if it cannot be written.
  void write(capnp::MessageBuilder& message);
  int64_t events() const;
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive
