#include "route/log/reader.h"

#include <capnp/schema.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace sparkpilot::drive {
namespace {

constexpr int64_t kMaxUnpacked = int64_t{8} << 30;  // bytes of one unpacked log; a real one has up to about 100 MB
constexpr size_t kMaxMessage = size_t{64} << 20;    // bytes; the largest real ones are thumbnails of some 100 kB
constexpr uint32_t kMaxSegments = 512;              // the limit of Cap'n Proto's own readers
constexpr size_t kWord = sizeof(capnp::word);

// The size in bytes of the message that begins with `head`, including its segment table (Cap'n Proto, "Serialization
// Over a Stream"): the number of segments minus one, their sizes in words, padding to a word.
struct Frame {
  size_t table_bytes = 0;       // 0: `head` is too short
  std::optional<size_t> bytes;  // empty: `head` is too short
  bool sane = true;
};

Frame frame_of(std::span<const std::byte> head) {
  Frame frame;
  uint32_t last = 0;
  if (head.size() < sizeof last) return frame;
  std::memcpy(&last, head.data(), sizeof last);
  frame.sane = last < kMaxSegments;
  if (!frame.sane) return frame;
  frame.table_bytes = ((static_cast<size_t>(last) + 1) / 2 + 1) * kWord;
  if (head.size() < frame.table_bytes) return frame;
  uint64_t words = 0;
  for (uint32_t i = 0; i <= last; ++i) {
    uint32_t size = 0;
    std::memcpy(&size, head.data() + sizeof last + i * sizeof size, sizeof size);
    words += size;
  }
  frame.sane = words > 0 && words <= kMaxMessage / kWord;  // an event has at least one word
  if (frame.sane) frame.bytes = frame.table_bytes + static_cast<size_t>(words) * kWord;
  return frame;
}

// Why a file that begins with these bytes cannot hold events; empty if it can.
std::string not_a_log(std::span<const std::byte> head) {
  if (head.empty()) return "is empty, expected a log";
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("version https://git-lfs")) return "is a Git LFS pointer, the log itself was not fetched";
  const auto printable = [](char c) { return (c >= ' ' && c != 127) || c == '\n' || c == '\r' || c == '\t'; };
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (std::all_of(text.begin(), text.end(), printable)) {
    return begin != std::string_view::npos && text[begin] == '<'
               ? "is a page of HTML or XML, expected a log; a download of it failed"
               : "is text, expected a log";
  }
  return frame_of(head).sane ? "" : "is no log: it begins neither as zstd, nor as bz2, nor with a message";
}

}  // namespace

struct LogReader::Impl {
  Impl(std::unique_ptr<ByteSource> packed, std::string given)
      : name(std::move(given)),
        source(unpacked(std::move(packed), kMaxUnpacked)),
        words(kj::heapArray<capnp::word>((1 << 20) / kWord)) {
    constexpr size_t kLook = 512;
    need(kLook);
    if (held().empty() && !source->damage().empty()) fail("{}: {}, before its first event", name, source->damage());
    const std::string what = not_a_log(held().first(std::min(held().size(), kLook)));
    if (!what.empty()) fail("{}: {}", name, what);
  }

  std::byte* bytes() { return reinterpret_cast<std::byte*>(words.begin()); }
  std::span<const std::byte> held() { return {bytes() + begin, end - begin}; }

  // Makes held() at least `wanted` bytes long; false if the log ends first.
  bool need(size_t wanted) {
    while (end - begin < wanted) {
      const size_t size = words.size() * kWord;
      if (end == size && begin > 0) {
        std::memmove(bytes(), bytes() + begin, end - begin);
        end -= begin;
        begin = 0;
      } else if (end == size) {
        // Grows only when full: a false size in the log costs no memory.
        kj::Array<capnp::word> larger = kj::heapArray<capnp::word>(words.size() * 2);
        std::memcpy(larger.begin(), words.begin(), end);
        words = kj::mv(larger);
      }
      const size_t got = source->read({bytes() + end, words.size() * kWord - end});
      if (got == 0) return false;
      end += got;
    }
    return true;
  }

  bool stop(std::string_view why) {
    if (damage.empty())
      damage = fmt::format("{}, after {} events", source->damage().empty() ? why : source->damage(), events);
    return false;
  }

  bool next() {
    if (!damage.empty()) return false;
    begin += std::exchange(event_bytes, 0);
    if (!need(1)) return source->damage().empty() ? false : stop({});
    need(kWord);
    Frame frame = frame_of(held());
    if (frame.sane && !frame.bytes && need(frame.table_bytes)) frame = frame_of(held());
    if (!frame.sane) return stop("no event where one was expected");
    if (!frame.bytes || !need(*frame.bytes)) return stop("cut in the middle of an event");
    return open(*frame.bytes) || stop("an event without its root");
  }

  bool open(size_t size) {
    const kj::ArrayPtr<const capnp::word> message(words.begin() + begin / kWord, size / kWord);
    capnp::ReaderOptions options;
    // Each followed pointer counts the size of what it points to: a hostile message points many times to the same
    // bytes. The limit lets an honest reader visit a message several times.
    options.traversalLimitInWords = (1 << 16) + 16 * message.size();
    const bool opened = read_fields([&] {
      reader.emplace(message, options);
      root = reader->getRoot<cereal::Event>();
    });
    if (!opened) return false;
    event_bytes = size;
    ++events;
    return true;
  }

  std::string name;
  std::unique_ptr<ByteSource> source;
  kj::Array<capnp::word> words;  // bytes [begin, end) are read but not yet passed on; begin is at a word boundary
  size_t begin = 0, end = 0, event_bytes = 0;
  std::optional<capnp::FlatArrayMessageReader> reader;
  cereal::Event::Reader root;
  int64_t events = 0;
  std::string damage;
};

LogReader::LogReader(const std::filesystem::path& path)
    : impl_(std::make_unique<Impl>(file_source(path), path.string())) {}
LogReader::LogReader(std::unique_ptr<ByteSource> bytes, std::string name)
    : impl_(std::make_unique<Impl>(std::move(bytes), std::move(name))) {}
LogReader::~LogReader() = default;

bool LogReader::next() { return impl_->next(); }
const cereal::Event::Reader& LogReader::event() const { return impl_->root; }
bool LogReader::known() const { return static_cast<size_t>(impl_->root.which()) < event_kinds().size(); }
std::span<const std::byte> LogReader::message() const { return impl_->held().first(impl_->event_bytes); }
int64_t LogReader::event_bytes() const { return static_cast<int64_t>(impl_->event_bytes); }
const std::string& LogReader::damage() const { return impl_->damage; }
int64_t LogReader::events() const { return impl_->events; }
double LogReader::done() const { return impl_->source->done(); }

const std::vector<std::string>& event_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    const auto fields = capnp::Schema::from<cereal::Event>().getUnionFields();
    for (const auto& field : fields) {
      const size_t at = field.getProto().getDiscriminantValue();
      list.resize(std::max(list.size(), at + 1));
      list[at] = field.getProto().getName().cStr();
    }
    return list;
  }();
  return names;
}

std::string event_kind(const cereal::Event::Reader& event) {
  const auto which = static_cast<size_t>(event.which());
  if (which < event_kinds().size()) return event_kinds()[which];
  // Discriminants count the members of the union; logMonoTime (@0) and valid (@67) are not among them.
  return fmt::format("unknown({})", which + 2);
}

}  // namespace sparkpilot::drive
