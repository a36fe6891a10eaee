// Where the threads of a warp do something together.
#pragma once

#include "emulator/thread.h"

namespace sparkpilot::emulator {

// Comes to the warp's meeting. Its last thread gets the warp, whose `operands` are then those of all threads by lane,
// and must call leave_meeting; the others get null once that is done.
Warp* come_to_meeting(const char* word, Place place, void* operands);
void leave_meeting(Warp& warp);

// The meeting of a whole warp at a word: perform(all) is called once, with all[lane] pointing to that lane's `mine`.
template <typename Operands, typename Perform>
void meet(const char* word, Place place, Operands& mine, Perform perform) {
  if (Warp* const warp = come_to_meeting(word, place, &mine)) {
    perform(reinterpret_cast<Operands* const*>(warp->operands));
    leave_meeting(*warp);
  }
}

}  // namespace sparkpilot::emulator
