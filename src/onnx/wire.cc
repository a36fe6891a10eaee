#include "onnx/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <limits>

namespace sparkpilot {
namespace {

// A range of a source as an input stream for protobuf.
class SourceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  SourceStream(ByteSource& source, Range range)
      : source_(source), begin_(range.offset), end_(range.offset + range.length), at_(range.offset) {}

  bool Next(const void** data, int* size) override {
    if (at_ == end_) return false;
    const auto piece = source_.peek(at_, end_ - at_);
    *data = piece.data();
    *size = static_cast<int>(piece.size());
    at_ += *size;
    return true;
  }
  void BackUp(int count) override { at_ -= count; }
  bool Skip(int count) override {
    const bool fits = count <= end_ - at_;
    at_ = fits ? at_ + count : end_;
    return fits;
  }
  int64_t ByteCount() const override { return at_ - begin_; }

 private:
  ByteSource& source_;
  int64_t begin_, end_, at_;
};

enum WireType : uint32_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

struct Walk {
  std::vector<Deferred> deferred;
  std::vector<Range> rest;  // all other bytes, with adjacent ranges merged
};

// Null on malformed bytes.
bool walk_fields(ByteSource& source, Range range, std::initializer_list<int> defer, Walk& walk) {
  SourceStream stream(source, range);
  google::protobuf::io::CodedInputStream in(&stream);
  while (true) {
    const int64_t start = in.CurrentPosition();
    const uint32_t tag = in.ReadTag();
    if (tag == 0) return in.ConsumedEntireMessage();
    const int number = static_cast<int>(tag >> 3);
    uint64_t value = 0;
    uint32_t length = 0;
    switch (tag & 7) {
      case varint:
        if (!in.ReadVarint64(&value)) return false;
        break;
      case fixed64:
        if (!in.Skip(8)) return false;
        break;
      case fixed32:
        if (!in.Skip(4)) return false;
        break;
      case length_delimited: {
        if (!in.ReadVarint32(&length)) return false;
        const int64_t position = in.CurrentPosition();
        if (length > range.length - position || !in.Skip(static_cast<int>(length))) return false;
        if (std::find(defer.begin(), defer.end(), number) != defer.end()) {
          walk.deferred.push_back({number, {range.offset + position, length}});
          continue;
        }
        break;
      }
      default: return false;  // groups, which ONNX never used
    }
    const Range field{range.offset + start, in.CurrentPosition() - start};
    if (!walk.rest.empty() && walk.rest.back().offset + walk.rest.back().length == field.offset) {
      walk.rest.back().length += field.length;
    } else {
      walk.rest.push_back(field);
    }
  }
}

}  // namespace

std::vector<Deferred> parse_message(ByteSource& source, Range range, google::protobuf::MessageLite& message,
                                    std::initializer_list<int> defer, std::string_view what) {
  if (range.length > std::numeric_limits<int>::max()) {
    fail("{} has {} bytes, more than the 2 GiB that protobuf allows (weights of that size go to external data)", what,
         range.length);
  }
  Walk walk;
  if (!walk_fields(source, range, defer, walk)) {
    fail("{} at byte {} is malformed or cut short", what, range.offset);
  }
  int64_t size = 0;
  for (const Range& piece : walk.rest) size += piece.length;
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t at = 0;
  for (const Range& piece : walk.rest) {
    const auto length = static_cast<size_t>(piece.length);
    source.read(piece.offset, std::as_writable_bytes(std::span(bytes.data() + at, length)));
    at += length;
  }
  if (!message.ParseFromString(bytes)) fail("{} at byte {} is malformed", what, range.offset);
  return std::move(walk.deferred);
}

std::string read_string(ByteSource& source, Range range) {
  std::string text(static_cast<size_t>(range.length), '\0');
  source.read(range.offset, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

}  // namespace sparkpilot
