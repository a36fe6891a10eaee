// Any bytes as the journal of a search or as a range: trials or a range, or an Error, never anything else.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "sim/tune.h"

using namespace sparkpilot;
using namespace sparkpilot::sim;

// The first byte says what follows: a range, a whole journal, or what stands behind a journal's first line.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const TuneOptions options{.ranges = {{"kp", 0.2, 3, true}, {"ki", 0, 1}}, .objective = "fuzz"};
  try {
    if (data[0] == 'r') {
      const TuneRange range = parse_range(text);
      if (range.name.empty()) __builtin_trap();
      return 0;
    }
    if (data[0] != 'j') text = journal_head(options) + "\n" + text;
    const JournalText journal = parse_journal(text, options, "journal");
    if (journal.bytes > static_cast<int64_t>(text.size())) __builtin_trap();
    for (const Trial& trial : journal.trials) {
      if (trial.values.size() != options.ranges.size() || (trial.cost && !std::isfinite(*trial.cost))) __builtin_trap();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
