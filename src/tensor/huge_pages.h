// Memory for buffers that are smaller than a huge page, several of them in one: weights of a network are read from
// front to back in every run, and each of its products would otherwise miss the TLB once for 4 KiB.
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
  static constexpr int64_t kChunk = 4 * kPage;  // taken from the system at once; what is not written takes no memory
  static constexpr int64_t kAlignment = 64;

  // Of the process. It is never destroyed, since buffers may outlive everything else.
  static HugePages& shared();

  HugePages() = default;
  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // `bytes`: 1 to kChunk. Null: out of memory. What it holds is unspecified.
  std::byte* allocate(int64_t bytes);
  // What allocate() returned, with as many bytes. A chunk of which nothing is in use goes back to the system.
  void free(std::byte* memory, int64_t bytes);
  int64_t chunks() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::byte*, int64_t> free_;    // by address; no two are adjacent in one chunk
  std::map<std::byte*, int64_t> chunks_;  // bytes in use of each
};

}  // namespace sparkpilot
