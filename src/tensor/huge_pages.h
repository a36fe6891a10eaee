// Memory for buffers below some megabytes, several of them in one huge page: weights of a network are read from front
// to back in every run, and would otherwise miss the TLB every 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace sparkpilot {

// Where the system gives no huge pages, they are usual ones. Any thread may call.
class HugePages {
 public:
  static constexpr int64_t kPage = int64_t{2} << 20;
  static constexpr int64_t kChunk = 4 * kPage;  // taken from the system at once; it gives a page when that is written
  static constexpr int64_t kAlignment = 64;

  // Of the process. It is never destroyed, since buffers may outlive everything else.
  static HugePages& shared();

  HugePages() = default;
  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // `bytes`: 1 to kChunk. Null, or std::bad_alloc: out of memory. What it holds is unspecified.
  std::byte* allocate(int64_t bytes);
  // What allocate() returned. Of the chunks of which nothing is in use one is kept.
  void free(std::byte* memory) noexcept;
  int64_t chunks() const;

 private:
  using Pieces = std::map<std::byte*, int64_t>;  // bytes by address
  Pieces::iterator add_chunk();

  mutable std::mutex mutex_;
  // A piece is in one of them, and takes its node along: what is given back allocates nothing. No two free ones are
  // adjacent in one chunk.
  Pieces free_, used_;
  Pieces chunks_;  // bytes in use of each
};

}  // namespace sparkpilot
