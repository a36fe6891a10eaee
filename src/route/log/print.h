// Events as text, under openpilot's own names: JSON lines and CSV, by reflection over the schema.
#pragma once

#include <route/log/schema/log.capnp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sparkpilot::drive {

struct PrintOptions {
  std::vector<std::string> fields;  // "vEgo", "cruiseState.speed", "position.x[0]"; empty: all
  bool csv = false;
  bool whole_data = false;  // for Data longer than 64 bytes (pictures) the bytes, not only the length
};

// Prints the events of one kind. As JSON, a line is
//   {"mono_time_ns": ..., "valid": true, "carState": {...}}
// where chosen fields appear under the paths that named them. As CSV, a line is the time, the flag and a column for
// each leaf of the schema (or each chosen field); a list is one column of JSON. NaN, infinity, elements beyond a list's
// end and members of a union that are not set are null, in CSV empty. carEvents and onroadEvents both mean the on-road
// events of every era, under the requested name. Enums are their names, Data is base64, or {"bytes": N} if it is long.
// Fields without a schema here (AnyPointer) are left out.
class EventPrinter {
 public:
  // Fails (user) if there is no such kind of event, its contents have no schema, or a field does not exist.
  EventPrinter(const std::string& kind, PrintOptions options);
  ~EventPrinter();

  // The line of column names; empty for JSON.
  std::string heading() const;
  // Whether an event is of this kind.
  bool takes(const cereal::Event::Reader& event) const;
  // Appends the event's line, with its newline. False if its contents are damaged: then nothing is appended.
  bool print(const cereal::Event::Reader& event, std::string& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The kinds of events that a name means, as indices of event_kinds(): one, or both of carEvents and onroadEvents
// (above). None if there is no such kind. Their contents may have no schema here.
std::vector<size_t> kinds_named(const std::string& name);
bool is_kind(const std::string& kind);
// The kinds that EventPrinter prints.
std::vector<std::string> printable_kinds();

}  // namespace sparkpilot::drive
