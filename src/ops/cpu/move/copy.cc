#include "ops/cpu/move/copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/parallel.h"

namespace sparkpilot {
namespace {

// Minimum bytes per thread; less is faster on one thread.
constexpr int64_t kGrainBytes = int64_t{32} << 10;
// Longer runs are split, so that threads can share them.
constexpr int64_t kPieceBytes = int64_t{64} << 10;
// Tiles of a transposition: one cache line of each row on both sides.
constexpr int64_t kTileBytes = 64;

// The loops in bytes, ordered from the outermost to the innermost by the destination's step, and the size of the block
// that is copied at once.
struct Walk {
  std::array<CopyLoop, CopyLoops::kMax + 1> loops{};
  int size = 0;
  int64_t block = 1;

  CopyLoop& last() { return loops[static_cast<size_t>(size - 1)]; }
  void push(const CopyLoop& loop) { loops[static_cast<size_t>(size++)] = loop; }
};

Walk normalized(std::span<const CopyLoop> loops, int64_t element_bytes) {
  Walk walk;
  walk.block = element_bytes;
  for (const CopyLoop& loop : loops) {
    if (loop.count != 1) walk.push({loop.count, loop.from * element_bytes, loop.to * element_bytes});
  }
  // Insertion sort: keeps equal steps in the caller's order and allocates nothing.
  for (int i = 1; i < walk.size; ++i) {
    for (int j = i; j > 0; --j) {
      CopyLoop &outer = walk.loops[static_cast<size_t>(j - 1)], &inner = walk.loops[static_cast<size_t>(j)];
      if (outer.to >= inner.to) break;
      std::swap(outer, inner);
    }
  }
  Walk merged;
  merged.block = element_bytes;
  for (int i = 0; i < walk.size; ++i) {
    const CopyLoop& next = walk.loops[static_cast<size_t>(i)];
    if (merged.size > 0 && merged.last().from == next.from * next.count && merged.last().to == next.to * next.count) {
      merged.last() = {merged.last().count * next.count, next.from, next.to};
    } else {
      merged.push(next);
    }
  }
  if (merged.size > 0 && merged.last().from == element_bytes && merged.last().to == element_bytes) {
    merged.block = merged.last().count * element_bytes;
    --merged.size;
  }
  return merged;
}

// The position of the outer loops.
class Odometer {
 public:
  Odometer(std::span<const CopyLoop> loops, int64_t index) : loops_(loops) {
    for (size_t i = loops.size(); i-- > 0;) {
      at_[i] = index % loops[i].count;
      index /= loops[i].count;
      from += at_[i] * loops[i].from;
      to += at_[i] * loops[i].to;
    }
  }
  void next() {
    for (size_t i = loops_.size(); i-- > 0;) {
      from += loops_[i].from;
      to += loops_[i].to;
      if (++at_[i] < loops_[i].count) return;
      from -= at_[i] * loops_[i].from;
      to -= at_[i] * loops_[i].to;
      at_[i] = 0;
    }
  }
  int64_t from = 0, to = 0;

 private:
  std::span<const CopyLoop> loops_;
  std::array<int64_t, CopyLoops::kMax + 1> at_{};
};

// Runs fn(from offset, to offset, piece) for every step of the loops and every piece within a step, in parallel.
template <typename Fn>
void walk_pieces(std::span<const CopyLoop> loops, int64_t pieces, int64_t piece_bytes, Fn fn) {
  int64_t steps = 1;
  for (const CopyLoop& loop : loops) steps *= loop.count;
  const int64_t grain = 1 + kGrainBytes / std::max<int64_t>(1, piece_bytes);
  parallel_for(steps * pieces, grain, [&](int64_t begin, int64_t end) {
    Odometer at(loops, begin / pieces);
    int64_t piece = begin % pieces;
    for (int64_t i = begin; i < end; ++i) {
      fn(at.from, at.to, piece);
      if (++piece == pieces) {
        piece = 0;
        at.next();
      }
    }
  });
}

void copy_runs(const Walk& walk, const std::byte* from, std::byte* to) {
  const int64_t pieces = (walk.block + kPieceBytes - 1) / kPieceBytes;
  const std::span loops(walk.loops.data(), static_cast<size_t>(walk.size));
  walk_pieces(loops, pieces, std::min(walk.block, kPieceBytes), [&](int64_t f, int64_t t, int64_t piece) {
    const int64_t skip = piece * kPieceBytes, bytes = std::min(kPieceBytes, walk.block - skip);
    std::memcpy(to + t + skip, from + f + skip, static_cast<size_t>(bytes));
  });
}

struct Bytes16 {
  uint64_t half[2];
};

// Copies elements that may have any alignment: two of them may have been merged into a T.
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void store(std::byte* at, const T& value) {
  std::memcpy(at, &value, sizeof(T));
}

// The innermost loop copies one T at a time.
template <typename T>
void copy_lines(const Walk& walk, const std::byte* from, std::byte* to) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t kChunk = kPieceBytes / kSize;
  const CopyLoop line = walk.loops[static_cast<size_t>(walk.size - 1)];
  const int64_t pieces = (line.count + kChunk - 1) / kChunk;
  const std::span loops(walk.loops.data(), static_cast<size_t>(walk.size - 1));
  walk_pieces(loops, pieces, std::min(line.count, kChunk) * kSize, [&](int64_t f, int64_t t, int64_t piece) {
    const int64_t skip = piece * kChunk, count = std::min(kChunk, line.count - skip);
    const std::byte* in = from + f + skip * line.from;
    std::byte* out = to + t + skip * line.to;
    if (line.to == kSize && line.from == 0) {
      const T value = load<T>(in);
      for (int64_t i = 0; i < count; ++i) store<T>(out + i * kSize, value);
    } else if (line.to == kSize) {
      for (int64_t i = 0; i < count; ++i) store<T>(out + i * kSize, load<T>(in + i * line.from));
    } else {
      for (int64_t i = 0; i < count; ++i) store<T>(out + i * line.to, load<T>(in + i * line.from));
    }
  });
}

// --- transposition: rows of the destination are columns of the source. 128-bit vectors by the compiler's vector
// extension: every target has them, so no dispatch at run time.
template <typename T>
struct Lanes {
  static constexpr int kCount = 16 / sizeof(T);
  typedef T Vec __attribute__((vector_size(16)));  // NOLINT(modernize-use-using)

  template <size_t... I>
  static Vec low(Vec a, Vec b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, (I / 2 + (I % 2) * kCount)...);
  }
  template <size_t... I>
  static Vec high(Vec a, Vec b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, (kCount / 2 + I / 2 + (I % 2) * kCount)...);
  }

  // Transposes a square of kCount x kCount elements: log2(kCount) rounds of interleaving row i with row i + kCount / 2.
  static void transpose(const std::byte* from, int64_t from_row, std::byte* to, int64_t to_row) {
    constexpr auto kIndex = std::make_index_sequence<kCount>{};
    Vec rows[kCount], mixed[kCount];
    for (int i = 0; i < kCount; ++i) rows[i] = load<Vec>(from + i * from_row);
    for (int round = 1; round < kCount; round *= 2) {
      for (int i = 0; i < kCount / 2; ++i) {
        mixed[2 * i] = low(rows[i], rows[i + kCount / 2], kIndex);
        mixed[2 * i + 1] = high(rows[i], rows[i + kCount / 2], kIndex);
      }
      for (int i = 0; i < kCount; ++i) rows[i] = mixed[i];
    }
    for (int i = 0; i < kCount; ++i) store<Vec>(to + i * to_row, rows[i]);
  }
};

// to[b, a] = from[a, b] for few `a`, with contiguous rows in the destination: interleaves kRows rows (some of which may
// be missing) in log2(kRows) rounds. Excess elements at the end of a result row are overwritten by the next row.
template <typename T, int kRows>
void transpose_thin(const std::byte* from, int64_t from_row, std::byte* to, int a_count, int64_t b_begin,
                    int64_t b_end) {
  using L = Lanes<T>;
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  constexpr auto kIndex = std::make_index_sequence<L::kCount>{};
  const int64_t row_bytes = a_count * kSize;
  int64_t b = b_begin;
  for (; b + L::kCount + kRows <= b_end; b += L::kCount) {
    typename L::Vec rows[kRows], mixed[kRows];
    for (int i = 0; i < kRows; ++i)
      rows[i] = load<typename L::Vec>(from + std::min(i, a_count - 1) * from_row + b * kSize);
    for (int round = 1; round < kRows; round *= 2) {
      for (int i = 0; i < kRows / 2; ++i) {
        mixed[2 * i] = L::low(rows[i], rows[i + kRows / 2], kIndex);
        mixed[2 * i + 1] = L::high(rows[i], rows[i + kRows / 2], kIndex);
      }
      for (int i = 0; i < kRows; ++i) rows[i] = mixed[i];
    }
    std::byte* out = to + b * row_bytes;
    for (int i = 0; i < kRows; ++i) {
      std::byte done[16];
      store(done, rows[i]);
      for (int k = 0; k < L::kCount / kRows; ++k, out += row_bytes)
        std::memcpy(out, done + k * kRows * kSize, kRows * kSize);
    }
  }
  for (; b < b_end; ++b) {
    for (int64_t a = 0; a < a_count; ++a)
      store<T>(to + b * row_bytes + a * kSize, load<T>(from + a * from_row + b * kSize));
  }
}

// to[b, a] = from[a, b] for b in [b_begin, b_end); `a` is contiguous in the destination, `b` in the source.
template <typename T>
void transpose_rows(const std::byte* from, int64_t from_row, std::byte* to, int64_t to_row, int64_t a_count,
                    int64_t b_begin, int64_t b_end) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t kTile = kTileBytes / kSize;
  constexpr int64_t kLanes = Lanes<T>::kCount;
  const auto scalar = [&](int64_t a0, int64_t a1, int64_t b0, int64_t b1) {
    for (int64_t b = b0; b < b1; ++b) {
      for (int64_t a = a0; a < a1; ++a) store<T>(to + b * to_row + a * kSize, load<T>(from + a * from_row + b * kSize));
    }
  };
  const int64_t b_count = b_end - b_begin;
  if (to_row == a_count * kSize) {
    const auto few = static_cast<int>(a_count);
    // A square has as many rows as a vector has lanes.
    if constexpr (kLanes >= 4) {
      if (a_count == 3 || (a_count == 4 && kLanes > 4)) {
        return transpose_thin<T, 4>(from, from_row, to, few, b_begin, b_end);
      }
    }
    if constexpr (kLanes >= 8) {
      if (a_count > 4 && (a_count < 8 || (a_count == 8 && kLanes > 8))) {
        return transpose_thin<T, 8>(from, from_row, to, few, b_begin, b_end);
      }
    }
    if constexpr (kLanes >= 16) {
      if (a_count > 8 && a_count < 16) return transpose_thin<T, 16>(from, from_row, to, few, b_begin, b_end);
    }
  }
  if (a_count < kLanes || b_count < kLanes) return scalar(0, a_count, b_begin, b_end);
  // If a side is not a multiple of a square's, the last square overlaps the one before it.
  for (int64_t a0 = 0; a0 < a_count; a0 += kTile) {
    for (int64_t b = 0; b < b_count; b += kLanes) {
      const int64_t row = b_begin + std::min(b, b_count - kLanes);
      for (int64_t i = a0; i < std::min(a0 + kTile, a_count); i += kLanes) {
        const int64_t a = std::min(i, a_count - kLanes);
        Lanes<T>::transpose(from + a * from_row + row * kSize, from_row, to + row * to_row + a * kSize, to_row);
      }
    }
  }
}

template <typename T>
void copy_tiles(Walk walk, int source_inner, const std::byte* from, std::byte* to) {
  constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(T)), kThin = 16;
  const CopyLoop a = walk.last(), b = walk.loops[static_cast<size_t>(source_inner)];
  const int64_t tile = a.count <= kThin ? 16 * kTile : kTile;
  --walk.size;
  std::copy(walk.loops.begin() + source_inner + 1, walk.loops.begin() + walk.size, walk.loops.begin() + source_inner);
  --walk.size;
  const int64_t pieces = (b.count + tile - 1) / tile;
  const std::span loops(walk.loops.data(), static_cast<size_t>(walk.size));
  walk_pieces(loops, pieces, std::min(tile, b.count) * a.count * static_cast<int64_t>(sizeof(T)),
              [&](int64_t f, int64_t t, int64_t piece) {
                transpose_rows<T>(from + f, a.from, to + t, b.to, a.count, piece * tile,
                                  std::min(b.count, (piece + 1) * tile));
              });
}

template <typename T>
void copy_elements(Walk& walk, const std::byte* from, std::byte* to) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if constexpr (kSize <= 8) {
    if (walk.last().to == kSize && walk.last().count > 1) {
      for (int i = walk.size - 2; i >= 0; --i) {
        const CopyLoop& loop = walk.loops[static_cast<size_t>(i)];
        if (loop.from == kSize) return copy_tiles<T>(walk, i, from, to);
      }
    }
  }
  copy_lines<T>(walk, from, to);
}

// 4-bit and 2-bit elements: several share a byte of the destination, so copied on one thread, one element at a time.
void copy_packed(int width, std::span<const CopyLoop> loops, const uint8_t* from, int64_t from_start, uint8_t* to,
                 int64_t to_start) {
  const int64_t per_byte = 8 / width;
  const auto mask = static_cast<uint8_t>((1 << width) - 1);
  int64_t steps = 1;
  for (const CopyLoop& loop : loops) steps *= loop.count;
  Odometer at(loops, 0);
  for (int64_t i = 0; i < steps; ++i, at.next()) {
    const int64_t f = from_start + at.from, t = to_start + at.to;
    const int code = from[f / per_byte] >> (f % per_byte * width) & mask;
    const int shift = static_cast<int>(t % per_byte) * width;
    to[t / per_byte] = static_cast<uint8_t>((to[t / per_byte] & ~(mask << shift)) | code << shift);
  }
}

}  // namespace

void copy_strided(DType dtype, const CopyLoops& copy, const void* source, int64_t from_start, void* destination,
                  int64_t to_start) {
  const std::span loops = copy.span();
  for (const CopyLoop& loop : loops) {
    if (loop.count <= 0) return;
  }
  const int width = bits(dtype);
  if (width < 8) {
    return copy_packed(width, loops, static_cast<const uint8_t*>(source), from_start,
                       static_cast<uint8_t*>(destination), to_start);
  }
  const std::byte* from = static_cast<const std::byte*>(source) + from_start * (width / 8);
  std::byte* to = static_cast<std::byte*>(destination) + to_start * (width / 8);
  Walk walk = normalized(loops, width / 8);
  if (walk.size == 0) return copy_runs(walk, from, to);
  switch (walk.block) {  // a short run is copied as one wide element
    case 1: return copy_elements<uint8_t>(walk, from, to);
    case 2: return copy_elements<uint16_t>(walk, from, to);
    case 4: return copy_elements<uint32_t>(walk, from, to);
    case 8: return copy_elements<uint64_t>(walk, from, to);
    case 16: return copy_elements<Bytes16>(walk, from, to);
    default: return copy_runs(walk, from, to);
  }
}

void fill(DType dtype, void* to, int64_t count, const void* value) {
  CopyLoops loops;
  loops.add(count, 0, 1);
  copy_strided(dtype, loops, value, 0, to, 0);
}

void run_view(const Call& call) {
  const ConstView& in = call.inputs[0];
  if (call.outputs[0].data == in.data || in.bytes() == 0) return;
  CopyLoops loops;
  loops.add(in.bytes(), 1, 1);
  copy_strided(DType::u8, loops, in.data, 0, call.outputs[0].data, 0);
}

}  // namespace sparkpilot
