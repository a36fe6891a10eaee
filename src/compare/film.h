// Pictures of two drives on the same frames: one film with both plans drawn on the road, and single moments of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compare/driving.h"

namespace sparkpilot::compare {

struct FilmOptions {
  std::filesystem::path film = {};   // the MP4 to write; empty: only pictures
  std::set<uint32_t> pictures = {};  // frame ids
  int width = 964;                   // of both, pixels
  int threads = 0;                   // of decoder and encoder; 0: every processor
  const std::atomic<bool>* stop = nullptr;
  std::function<void(double done)> progress = {};
};

struct Film {
  bool written = false;                               // the film
  std::map<uint32_t, double> seconds;                 // of the film, by frame id
  std::map<uint32_t, std::vector<uint8_t>> pictures;  // JPEG, by frame id
  std::vector<std::string> notes;                     // why something is missing
};

// Draws `ours` in blue and `reference` in orange on the frames of the recordings that either drove. A segment whose
// video is gone or cannot be read is noted and left out. Fails (user) if the film cannot be written.
Film make_film(const Drive& ours, const Drive& reference, const FilmOptions& options);

}  // namespace sparkpilot::compare
