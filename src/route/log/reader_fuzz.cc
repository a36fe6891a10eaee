// Any bytes as a log: its events with all their fields, an Error of kind user, or reported damage; never anything else.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "route/log/print.h"
#include "route/log/reader.h"

namespace {

using sparkpilot::drive::EventPrinter;

// By the number of the kind; null if it cannot be printed.
std::vector<std::unique_ptr<EventPrinter>> printers(bool csv) {
  std::vector<std::unique_ptr<EventPrinter>> list;
  for (const std::string& kind : sparkpilot::drive::event_kinds()) {
    try {
      list.push_back(std::make_unique<EventPrinter>(kind, sparkpilot::drive::PrintOptions{{}, csv, false}));
    } catch (const sparkpilot::Error&) {
      list.push_back(nullptr);
    }
  }
  return list;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto json = printers(false), csv = printers(true);
  try {
    auto bytes = sparkpilot::drive::memory_source({reinterpret_cast<const std::byte*>(data), size});
    sparkpilot::drive::LogReader reader(std::move(bytes), "fuzz");
    std::string out;
    size_t printed = 0;
    // A short input can unpack to millions of events, and a short event can print as megabytes of defaults.
    while (reader.events() < 100 && printed < 8'000'000 && reader.next()) {
      sparkpilot::drive::event_kind(reader.event());
      const auto which = static_cast<size_t>(reader.event().which());
      out.clear();
      if (reader.known() && json[which]) {
        json[which]->print(reader.event(), out);
        csv[which]->print(reader.event(), out);
        printed += out.size();
      }
    }
  } catch (const sparkpilot::Error& error) {
    if (error.kind() != sparkpilot::ErrorKind::user) __builtin_trap();
  }
  return 0;
}
