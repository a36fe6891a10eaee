#include "emulator/traffic.h"

#include <algorithm>
#include <array>

namespace sparkpilot::emulator {
namespace {

constexpr uint64_t kSector = 32, kBank = 4, kBanks = 32;

// How often the most wanted bank must be read or written for these accesses. Threads that want the same word share it.
// A request of 8 bytes a thread is served for half a warp at a time, one of 16 for a quarter, so that is what may
// conflict.
template <typename Pieces>
int worst_bank(const Pieces& pieces, size_t bytes, bool matrix) {
  const int lanes_at_once = matrix ? 8 : bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  int worst = 0;
  for (int first = 0; first < 32; first += lanes_at_once) {
    std::vector<uint64_t> words;
    for (const auto& piece : pieces) {
      if (piece.lane < first || piece.lane >= first + lanes_at_once) continue;
      for (uint64_t word = piece.address / kBank; word <= (piece.address + piece.bytes - 1) / kBank; ++word)
        words.push_back(word);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<int, kBanks> wanted{};
    for (const uint64_t word : words) worst = std::max(worst, ++wanted[word % kBanks]);
  }
  return worst;
}

}  // namespace

void TrafficCounter::note(uint32_t code, int thread, uint64_t address, size_t bytes, bool shared, bool write,
                          bool matrix) {
  const uint32_t time = times_[{code, thread}]++;
  Request& request = requests_[{code, thread / 32, time}];
  request.shared = shared;
  request.write = write;
  request.matrix = matrix;
  request.pieces.push_back({thread % 32, address, bytes});
}

void TrafficCounter::end_block() {
  for (const auto& [key, request] : requests_) {
    Total& total = totals_[std::get<0>(key)];
    total.shared = request.shared;
    total.write = request.write;
    ++total.requests;
    std::vector<uint64_t> sectors;
    for (const Piece& piece : request.pieces) {
      total.bytes += piece.bytes;
      for (uint64_t s = piece.address / kSector; s <= (piece.address + piece.bytes - 1) / kSector; ++s)
        sectors.push_back(s);
    }
    if (request.shared) {
      total.worst_bank =
          std::max(total.worst_bank, worst_bank(request.pieces, request.pieces[0].bytes, request.matrix));
    } else {
      std::sort(sectors.begin(), sectors.end());
      total.sectors += static_cast<uint64_t>(std::unique(sectors.begin(), sectors.end()) - sectors.begin());
    }
  }
  requests_.clear();
  times_.clear();
}

std::map<uint32_t, TrafficCounter::Total> TrafficCounter::take() { return std::exchange(totals_, {}); }

}  // namespace sparkpilot::emulator
