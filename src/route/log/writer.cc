#include "route/log/writer.h"

#include <bzlib.h>
#include <capnp/serialize.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/error.h"
#include "base/file.h"

namespace sparkpilot::drive {
namespace {

using Chunk = std::array<char, 1 << 16>;

// Receives a log's bytes and writes them to the file, compressed or not.
class Sink {
 public:
  explicit Sink(AtomicFile& file) : file_(file) {}
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual void write(const char* data, size_t bytes) = 0;
  virtual void finish() = 0;

 protected:
  AtomicFile& file_;
};

// Collects small messages to save system calls.
class PlainSink : public Sink {
 public:
  using Sink::Sink;
  void write(const char* data, size_t bytes) override {
    if (used_ + bytes > chunk_.size()) finish();
    if (bytes > chunk_.size()) {
      file_.write(data, bytes);
    } else {
      std::copy_n(data, bytes, chunk_.data() + used_);
      used_ += bytes;
    }
  }
  void finish() override {
    file_.write(chunk_.data(), used_);
    used_ = 0;
  }

 private:
  Chunk chunk_;
  size_t used_ = 0;
};

class ZstdSink : public Sink {
 public:
  explicit ZstdSink(AtomicFile& file) : Sink(file), stream_(ZSTD_createCCtx()) {
    if (!stream_) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_checksumFlag, 1);
  }
  void write(const char* data, size_t bytes) override { push(data, bytes, ZSTD_e_continue); }
  void finish() override { push(nullptr, 0, ZSTD_e_end); }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* stream) const { ZSTD_freeCCtx(stream); }
  };

  void push(const char* data, size_t bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{data, bytes, 0};
    size_t left = 0;
    do {
      ZSTD_outBuffer out{chunk_.data(), chunk_.size(), 0};
      left = ZSTD_compressStream2(stream_.get(), &out, &in, directive);
      if (ZSTD_isError(left) && ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_isError(left)) fail_internal("zstd: {}", ZSTD_getErrorName(left));
      if (out.pos > 0) file_.write(chunk_.data(), out.pos);
    } while (directive == ZSTD_e_end ? left != 0 : in.pos < in.size);
  }

  std::unique_ptr<ZSTD_CCtx, Free> stream_;
  Chunk chunk_;
};

class Bz2Sink : public Sink {
 public:
  explicit Bz2Sink(AtomicFile& file) : Sink(file) {
    constexpr int kBlock = 9;  // 900 kB, as openpilot writes
    if (BZ2_bzCompressInit(&stream_, kBlock, 0, 0) != BZ_OK) fail_internal("bz2: cannot make a compressor");
  }
  ~Bz2Sink() override { BZ2_bzCompressEnd(&stream_); }
  void write(const char* data, size_t bytes) override {
    constexpr size_t kMax = 1 << 30;  // bz2's counters have 32 bits
    for (size_t at = 0; at < bytes; at += kMax) push(data + at, std::min(kMax, bytes - at), BZ_RUN);
  }
  void finish() override { push(nullptr, 0, BZ_FINISH); }

 private:
  void push(const char* data, size_t bytes, int action) {
    stream_.next_in = const_cast<char*>(data);
    stream_.avail_in = static_cast<unsigned>(bytes);
    int result = BZ_OK;
    do {
      stream_.next_out = chunk_.data();
      stream_.avail_out = static_cast<unsigned>(chunk_.size());
      result = BZ2_bzCompress(&stream_, action);
      if (result < 0) fail_internal("bz2: error {}", result);
      file_.write(chunk_.data(), chunk_.size() - stream_.avail_out);
    } while (action == BZ_FINISH ? result != BZ_STREAM_END : stream_.avail_in > 0);
  }

  bz_stream stream_{};
  Chunk chunk_;
};

std::unique_ptr<Sink> make_sink(const std::filesystem::path& path, AtomicFile& file) {
  if (path.extension() == ".zst") return std::make_unique<ZstdSink>(file);
  if (path.extension() == ".bz2") return std::make_unique<Bz2Sink>(file);
  return std::make_unique<PlainSink>(file);
}

}  // namespace

struct LogWriter::Impl {
  explicit Impl(const std::filesystem::path& path) : file(path), sink(make_sink(path, file)) {}
  AtomicFile file;
  std::unique_ptr<Sink> sink;
  int64_t events = 0;
};

LogWriter::LogWriter(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
LogWriter::~LogWriter() = default;

void LogWriter::write(capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  impl_->sink->write(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  ++impl_->events;
}

int64_t LogWriter::events() const { return impl_->events; }

void LogWriter::commit() {
  impl_->sink->finish();
  impl_->file.commit();
}

}  // namespace sparkpilot::drive
