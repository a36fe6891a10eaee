#include "route/log/unpack.h"

#include <bzlib.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace sparkpilot::drive {

const std::string& ByteSource::damage() const {
  static const std::string none;
  return none;
}

namespace {

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path) : file_(path) {}
  size_t read(std::span<std::byte> out) override {
    ssize_t got = 0;
    do got = ::read(file_.fd(), out.data(), out.size());
    while (got < 0 && errno == EINTR);
    if (got < 0) fail("{}: cannot read: {}", file_.path().string(), std::strerror(errno));
    at_ += got;
    return static_cast<size_t>(got);
  }
  double done() const override {
    return file_.size() > 0 ? std::min(1.0, static_cast<double>(at_) / static_cast<double>(file_.size())) : 1;
  }

 private:
  InputFile file_;
  int64_t at_ = 0;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t read(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), bytes_.size() - at_);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), count, out.begin());
    at_ += count;
    return count;
  }
  double done() const override {
    return bytes_.empty() ? 1 : static_cast<double>(at_) / static_cast<double>(bytes_.size());
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

// A source with a window of packed bytes, whose first bytes can be inspected before they are consumed.
class Unpacked : public ByteSource {
 public:
  Unpacked(std::unique_ptr<ByteSource> packed, int64_t limit)
      : packed_(std::move(packed)), limit_(limit), window_(1 << 17) {}
  double done() const override { return packed_->done(); }
  const std::string& damage() const override { return damage_; }

  size_t read(std::span<std::byte> out) final {
    if (!damage_.empty() || out.empty()) return 0;
    // One byte above the limit shows that there is more.
    const auto most = static_cast<size_t>(limit_ - total_ + 1);
    const size_t got = unpack(out.first(std::min(out.size(), most)));
    total_ += static_cast<int64_t>(got);
    if (total_ > limit_) {
      damage_ = fmt::format("it unpacks to more than {} bytes", limit_);
      return got - 1;
    }
    return got;
  }

  // Packed bytes not yet consumed: at least `wanted`, if there are that many.
  std::span<const std::byte> ahead(size_t wanted) {
    while (end_ - begin_ < wanted && !at_end_) {
      std::memmove(window_.data(), window_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      const size_t got = packed_->read(std::span(window_).subspan(end_));
      at_end_ = got == 0;
      end_ += got;
    }
    return std::span(window_).subspan(begin_, end_ - begin_);
  }

 protected:
  virtual size_t unpack(std::span<std::byte> out) = 0;
  void take(size_t count) { begin_ += count; }
  void set_damage(std::string text) { damage_ = std::move(text); }

 private:
  std::unique_ptr<ByteSource> packed_;
  int64_t limit_, total_ = 0;
  std::vector<std::byte> window_;
  size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
  std::string damage_;
};

class PlainUnpacked : public Unpacked {
 public:
  using Unpacked::Unpacked;

 protected:
  size_t unpack(std::span<std::byte> out) override {
    const auto bytes = ahead(1);
    const size_t count = std::min(out.size(), bytes.size());
    std::copy_n(bytes.begin(), count, out.begin());
    take(count);
    return count;
  }
};

constexpr unsigned char kZstdMagic[] = {0x28, 0xb5, 0x2f, 0xfd};

bool starts_with(std::span<const std::byte> bytes, std::span<const unsigned char> magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

bool starts_zstd(std::span<const std::byte> bytes) {
  // RFC 8878: a frame, or one of the 16 kinds of skippable frames.
  constexpr unsigned char kSkipped[] = {0x2a, 0x4d, 0x18};
  return starts_with(bytes, kZstdMagic) || (bytes.size() >= 4 && (bytes[0] & std::byte{0xf0}) == std::byte{0x50} &&
                                            starts_with(bytes.subspan(1), kSkipped));
}

bool starts_bz2(std::span<const std::byte> bytes) {
  constexpr unsigned char kMagic[] = {'B', 'Z', 'h'};
  return bytes.size() >= 4 && starts_with(bytes, kMagic) && bytes[3] >= std::byte{'1'} && bytes[3] <= std::byte{'9'};
}

class ZstdUnpacked : public Unpacked {
 public:
  ZstdUnpacked(std::unique_ptr<ByteSource> packed, int64_t limit)
      : Unpacked(std::move(packed), limit), stream_(ZSTD_createDCtx()) {
    if (!stream_) fail_internal("zstd: cannot make a decompressor");
  }

 protected:
  size_t unpack(std::span<std::byte> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      const auto bytes = ahead(inside_ ? 1 : 4);
      if (!inside_ && bytes.empty()) return 0;
      if (!inside_ && !starts_zstd(bytes)) {
        set_damage("something else follows the zstd stream");
        return 0;
      }
      ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
      const size_t state = ZSTD_decompressStream(stream_.get(), &to, &from);
      take(from.pos);
      if (ZSTD_isError(state)) {
        set_damage(fmt::format("the zstd stream is damaged ({})", ZSTD_getErrorName(state)));
        return to.pos;
      }
      inside_ = state != 0;
      if (inside_ && bytes.empty() && to.pos == 0) {
        set_damage("the zstd stream is cut");
        return 0;
      }
    }
    return to.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* stream) const { ZSTD_freeDCtx(stream); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> stream_;
  bool inside_ = false;  // a frame has begun but not ended
};

class Bz2Unpacked : public Unpacked {
 public:
  using Unpacked::Unpacked;
  ~Bz2Unpacked() override { leave(); }

 protected:
  size_t unpack(std::span<std::byte> out) override {
    constexpr size_t kMax = 1 << 30;  // bz2's counters have 32 bits
    const size_t room = std::min(out.size(), kMax);
    stream_.next_out = reinterpret_cast<char*>(out.data());
    stream_.avail_out = static_cast<unsigned>(room);
    while (stream_.avail_out == room) {
      const auto bytes = ahead(inside_ ? 1 : 4);
      if (!inside_) {
        if (bytes.empty()) return 0;
        if (!starts_bz2(bytes)) {
          set_damage("something else follows the bz2 stream");
          return 0;
        }
        enter();
      }
      stream_.next_in = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
      stream_.avail_in = static_cast<unsigned>(bytes.size());
      const int state = BZ2_bzDecompress(&stream_);
      take(bytes.size() - stream_.avail_in);
      if (state == BZ_STREAM_END) {
        leave();
      } else if (state != BZ_OK) {
        set_damage(fmt::format("the bz2 stream is damaged (error {})", state));
        break;
      } else if (bytes.empty() && stream_.avail_out == room) {
        set_damage("the bz2 stream is cut");
        break;
      }
    }
    return room - stream_.avail_out;
  }

 private:
  void enter() {
    char* const next_out = stream_.next_out;
    const unsigned avail_out = stream_.avail_out;
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) fail_internal("bz2: cannot make a decompressor");
    stream_.next_out = next_out;
    stream_.avail_out = avail_out;
    inside_ = true;
  }
  void leave() {
    if (inside_) BZ2_bzDecompressEnd(&stream_);
    inside_ = false;
  }

  bz_stream stream_{};
  bool inside_ = false;
};

// The inspected bytes, then the rest.
class Joined : public ByteSource {
 public:
  Joined(std::vector<std::byte> first, std::unique_ptr<ByteSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}
  size_t read(std::span<std::byte> out) override {
    if (at_ == first_.size()) return rest_->read(out);
    const size_t count = std::min(out.size(), first_.size() - at_);
    std::copy_n(first_.begin() + static_cast<std::ptrdiff_t>(at_), count, out.begin());
    at_ += count;
    return count;
  }
  double done() const override { return rest_->done(); }

 private:
  std::vector<std::byte> first_;
  std::unique_ptr<ByteSource> rest_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> file_source(const std::filesystem::path& path) {
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> packed, int64_t limit) {
  std::vector<std::byte> first(4);
  size_t have = 0;
  for (size_t got = 1; have < first.size() && got > 0; have += got) got = packed->read(std::span(first).subspan(have));
  first.resize(have);
  const bool zstd = starts_zstd(first), bz2 = starts_bz2(first);
  auto whole = std::make_unique<Joined>(std::move(first), std::move(packed));
  if (zstd) return std::make_unique<ZstdUnpacked>(std::move(whole), limit);
  if (bz2) return std::make_unique<Bz2Unpacked>(std::move(whole), limit);
  return std::make_unique<PlainUnpacked>(std::move(whole), limit);
}

}  // namespace sparkpilot::drive
