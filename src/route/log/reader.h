// Reads openpilot's logs: whole-file zstd or bz2 (recognised by their first bytes) or plain, then Cap'n Proto messages
// of type Event one after the other. Streamed: memory does not grow with the file.
//
// What openpilot's reader tolerates is tolerated and reported: a truncated log ends after its last complete event; an
// event of a kind that this schema does not know is passed on as unknown; times need not increase.
#pragma once

#include <kj/exception.h>
#include <route/log/schema/log.capnp.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "route/log/unpack.h"

namespace sparkpilot::drive {

class LogReader {
 public:
  // Fails (user) naming the file if it cannot be opened or is not a log: an empty file, a page that a server sent
  // instead of a log, a Git LFS pointer, any other text.
  explicit LogReader(const std::filesystem::path& path);
  // The same over any bytes; messages call them `name`.
  LogReader(std::unique_ptr<ByteSource> bytes, std::string name);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Moves to the next event; false at the end. Damage ends the log: see damage(). Fails (user) if the system cannot
  // read the file; never throws kj::Exception.
  bool next();
  // The event next() moved to; valid until the next call of next(). Its own fields and its kind can be read; what they
  // point to may be damaged, and reading that throws kj::Exception: see read_fields().
  const cereal::Event::Reader& event() const;
  // False for a kind that this schema does not have.
  bool known() const;
  // Its bytes in the uncompressed log: a whole Cap'n Proto message. As long as event() is valid.
  std::span<const std::byte> message() const;
  int64_t event_bytes() const;

  // Why the log ended before its file did ("cut in the middle of an event, after 1234 events"); empty if it did not.
  const std::string& damage() const;
  int64_t events() const;  // read so far
  double done() const;     // the part of the file that has been read, 0 to 1

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs `read`, which reads fields of an event; false if it met damage. What it did before is not undone.
template <typename Read>
bool read_fields(Read&& read) {
  try {
    read();
    return true;
  } catch (const kj::Exception&) {
    return false;
  }
}

// The name of an event's kind ("modelV2"); for one that this schema does not have "unknown(151)", with the ordinal that
// openpilot's schema gives it.
std::string event_kind(const cereal::Event::Reader& event);
// The names of all kinds of this schema; an event's is the one with index which().
const std::vector<std::string>& event_kinds();

}  // namespace sparkpilot::drive
