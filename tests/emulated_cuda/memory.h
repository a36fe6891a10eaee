// Memory as the emulated driver gives it: strict where a real one is undefined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace emulated_cuda {

enum class Kind { device, managed, host };
using Places = std::vector<std::uintptr_t>;  // pointers into buffers

// Addresses are taken from one range and never used twice. Between any two buffers lies a closed page, and a buffer
// ends close to its last page's end. Device memory is closed to the processor while no work runs; managed memory too
// while work is queued, on a GPU without concurrent access.
class Memory {
 public:
  explicit Memory(std::size_t limit, bool concurrent_managed) : limit_(limit), concurrent_(concurrent_managed) {}

  // A multiple of 256; filled with 0xff. 0 if the GPU's memory is full.
  std::uintptr_t allocate(std::size_t bytes, Kind kind);
  bool free(std::uintptr_t pointer, bool host);
  // Whether [pointer, pointer + bytes) lies in one buffer of such a kind.
  bool holds(std::uintptr_t pointer, std::size_t bytes, Kind kind) const;
  bool is_on_gpu(std::uintptr_t pointer, std::size_t bytes) const {
    return holds(pointer, bytes, Kind::device) || holds(pointer, bytes, Kind::managed);
  }
  // All that work may reach, until as many calls have closed it.
  void open_for_work();
  void close_after_work();
  // The same for the buffers of these places alone, while nothing else is open.
  void open(const Places& places) const;
  void close(const Places& places) const;
  // Managed memory is opened to the processor where no work is queued, closed where some is.
  void work_is_queued(bool queued);

  std::size_t limit() const { return limit_; }
  std::size_t used(Kind kind) const { return used_[static_cast<int>(kind)]; }
  std::size_t most_used() const { return most_used_; }
  std::size_t count() const { return buffers_.size(); }

 private:
  struct Buffer {
    std::size_t bytes;
    std::uintptr_t first_page;
    std::size_t pages_bytes;
    Kind kind;
  };
  // That holds [pointer, pointer + bytes); null: none.
  const Buffer* buffer_of(std::uintptr_t pointer, std::size_t bytes) const;
  bool is_closed(Kind kind) const;  // to the processor, while no work runs
  void protect(Kind kind, int protection) const;
  void protect(const Places& places, int protection) const;

  std::size_t limit_, next_ = 0, used_[3] = {0, 0, 0}, most_used_ = 0;
  bool concurrent_, queued_ = false;
  int open_ = 0;  // calls of open_for_work()
  std::map<std::uintptr_t, Buffer> buffers_;
};

}  // namespace emulated_cuda
