#include "emulator/race.h"

namespace sparkpilot::emulator {
namespace {

// Whether `before` has surely happened when `now` does, for every thread of the launch.
bool is_ordered(const Stamp& before, const Stamp& now) {
  if (before.launch != now.launch) return true;
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.epoch < now.epoch) return true;
  return before.thread / kWarpSize == now.thread / kWarpSize && before.warp_epoch < now.warp_epoch;
}

bool is_race(const Stamp& before, const Stamp& now) {
  return (before.write || now.write) && !(before.atomic && now.atomic) && !is_ordered(before, now);
}

}  // namespace

std::optional<Stamp> Shadow::note(size_t offset, size_t bytes, const Stamp& now) {
  std::optional<Stamp> found;
  for (size_t i = offset; i < offset + bytes; ++i) {
    Cell& cell = cells_[i];
    if (!found && is_race(cell.write, now)) found = cell.write;
    if (now.write) {
      for (const Stamp& read : cell.reads) {
        if (!found && is_race(read, now)) found = read;
      }
      cell.write = now;
    } else {
      const Stamp& last = cell.reads[0];
      if (last.thread != now.thread || last.block != now.block || last.launch != now.launch) cell.reads[1] = last;
      cell.reads[0] = now;
    }
  }
  return found;
}

}  // namespace sparkpilot::emulator
