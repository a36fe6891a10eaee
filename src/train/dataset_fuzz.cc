// Any bytes as dataset.json or as a clip's rows: samples or an Error, never anything else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/test_files.h"
#include "train/dataset.h"
#include "train/test_dataset.h"

namespace {

using namespace sparkpilot;
using namespace sparkpilot::train;

// A folder in which only what is fuzzed is not as it should be.
struct Folder {
  Folder() {
    save_dataset_info(folder.path(), info);
    info.every = 4;
    save_dataset_info(folder.path(), info);
    ClipWriter writer(info);
    writer.begin(folder.path(), "log--0", "dongle|log");
    for (int64_t i = 0; i < 9; ++i) {  // frames 0 and 8 are samples, 4 is remembered
      const Targets targets = small_targets(info, i);
      writer.add(small_step(i), i % 8 == 0 ? &targets : nullptr, i == 4 ? "left out" : "");
    }
    writer.commit();
    json = read_text(folder / kDatasetFile);
    rows = read_text(rows_file(folder.path(), "log--0"));
  }
  TempFolder folder;
  DatasetInfo info = small_info();
  std::string json, rows;
};

}  // namespace

// The first byte says which of the two follows.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Folder fixed;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  write_text(fixed.folder / kDatasetFile, data[0] == 'j' ? text : fixed.json);
  write_text(rows_file(fixed.folder.path(), "log--0"), data[0] == 'j' ? fixed.rows : text);
  try {
    const Dataset samples(fixed.folder.path());
    for (int64_t i = 0; i < samples.size() + samples.remembered(); ++i) {
      read_sample(samples, i);
      for (const int64_t past : samples.past(i)) {
        if (past >= 0) (void)samples.order(past);
      }
    }
    samples.check();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
