// How AMX's tiles are configured. Linux lets a process use them on request only: may_use_amx() in hw/cpu.h.
#pragma once

#include <cstdint>

namespace sparkpilot {

// What ldtilecfg reads (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18): eight
// tiles of 16 rows of 64 bytes, unless `rows` says fewer.
struct alignas(64) AmxTiles {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(AmxTiles) == 64);

}  // namespace sparkpilot
