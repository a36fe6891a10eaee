// Reads openpilot's logs: whole-file zstd or bz2 (told by their first bytes) or plain, then Cap'n Proto messages of type
// Event one after the other. Streamed: memory does not grow with the file.
//
// What openpilot's own reader tolerates is tolerated, and said: a cut tail ends the log after its last whole event; an
// event whose kind this schema does not know is handed on as such; times need not rise.
#pragma once

#include <drive/log/schema/log.capnp.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace sparkpilot::drive {

class LogReader {
 public:
  // Fails (user) naming the file where it cannot be opened or is no log at all.
  explicit LogReader(std::filesystem::path path);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Moves to the next event; false at the end. Damage ends the log: see damage().
  bool next();
  // The event next() moved to; valid until the next call of next(). Reading a damaged field throws kj::Exception.
  cereal::Event::Reader event() const;
  // False for a kind that this schema does not have.
  bool known() const;
  // Its bytes as they lie in the uncompressed log.
  int64_t event_bytes() const;

  // Why the log ended before its file did ("cut in the middle of an event, after 1234 events"); empty where it did not.
  const std::string& damage() const;
  int64_t events() const;  // read so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The name of an event's kind ("modelV2"), "unknown(151)" for one that this schema does not have.
std::string event_kind(const cereal::Event::Reader& event);

}  // namespace sparkpilot::drive
